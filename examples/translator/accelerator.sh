#!/bin/sh
# Long trainings of translators, on an accelerator or not: installs, tries, measures, trains in short pieces, and goes on where it was.
#
#   sh examples/translator/accelerator.sh OUT TEXT [OPTIONS] [-- OPTIONS OF gmlm pipeline]
#
#   OUT              the folder of everything: logs, reports, bundles
#   TEXT             a folder with train, validation and test text: {train,val,test}.{en,de}, also .gz
#   --source en --target de   endings of the two languages
#   --test test      the first part of the names of the test text, such as test_2016_flickr
#   --wheels FOLDER  install from these wheels, and from nowhere else; without, from the index of pip, which must have the package
#   --extra NAME     of JAX beside the package: cuda12 by default, cpu for none
#   --gmlm COMMAND   one that is installed already, words in front of it allowed: nothing is installed
#   --python FILE    with which the environment is made; of an installed gmlm the one beside it by default
#   --sizes "small base"   what is trained
#   --minutes 9      of a piece: a training is ended by SIGTERM, which saves it; SIGTERM and Ctrl-C to this script do that too
#   --pieces N       end after so many pieces, with status 75 where more are needed; 0: all that are needed
#
# Called again it goes on. Status: 0 all is done, 75 call it again, 1 or else what failed or is lacking.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
usage() { sed -n '2,/^set -eu/{/^set -eu/d;s/^# \{0,1\}//;p;}' "$0"; }
[ $# -ge 2 ] || { usage >&2; exit 2; }
out=$1 text=$2
shift 2
source=en target=de test=test wheels= extra=cuda12 gmlm= python= sizes="small base" minutes=9 pieces=0
while [ $# -gt 0 ]; do
  case $1 in
    --) shift; break ;;
    --source | --target | --test | --wheels | --extra | --gmlm | --python | --sizes | --minutes | --pieces)
      [ $# -ge 2 ] || { echo "$1 needs a value" >&2; exit 2; }
      name=${1#--} value=$2
      eval "$name=\$value"
      shift 2 ;;
    *) echo "unknown option $1" >&2; usage >&2; exit 2 ;;
  esac
done

file() { # a text by its part and its language
  for ending in "" .gz; do
    if [ -f "$text/$1.$2$ending" ]; then echo "$text/$1.$2$ending"; return; fi
  done
  echo "there is no $text/$1.$2" >&2
  exit 2
}
number() { # of an option
  case $2 in '' | *[!0-9.]* | *.*.* | .) echo "$1 needs a number, not $2" >&2; exit 2 ;; esac
}
size_of() { # inputs of a size
  case $1 in
    small) echo "layers=3 heads=4 width=256" ;;
    base) echo "layers=6 heads=8 width=512" ;;
    *) echo "no size is called $1: there are small and base" >&2; exit 2 ;;
  esac
}
number --minutes "$minutes"
case $gmlm:$out$wheels in :*[[:space:]]*) echo "what is installed there needs OUT and --wheels without spaces in their names" >&2; exit 2 ;; esac
case $pieces in '' | *[!0-9]*) echo "--pieces needs a whole number, not $pieces" >&2; exit 2 ;; esac
for size in $sizes; do size_of "$size" >/dev/null; done
train_source=$(file train "$source")
train_target=$(file train "$target")
val_source=$(file val "$source")
val_target=$(file val "$target")
test_source=$(file "$test" "$source")
test_target=$(file "$test" "$target")
mkdir -p "$out"
say() { echo "$(date -u +%H:%M:%S) $*" | tee -a "$out/accelerator.log"; }

run() { # a command that is ended with this script; its status is in $status
  "$@" &
  child=$! status=0
  trap 'kill -TERM "$child" 2>/dev/null || :; wait "$child" || :; exit 143' TERM
  trap 'kill -TERM "$child" 2>/dev/null || :; wait "$child" || :; exit 130' INT
  wait "$child" || status=$?
  trap - TERM INT
}

used=0
piece() { # one more, where this call may
  if [ "$pieces" -gt 0 ] && [ "$used" -ge "$pieces" ]; then say "$used pieces are done: call it again"; exit 75; fi
  used=$((used + 1))
}

installs=
if [ -n "$gmlm" ]; then
  beside=$(dirname "$(command -v "${gmlm##* }" || echo .)")/python
  if [ -z "$python" ] && [ -x "$beside" ]; then python=$beside; fi
  python=${python:-python3}
else # 1. install
  installs=yes python=${python:-python3}
  if [ ! -f "$out/install.done" ]; then
    say "install"
    "$python" -m venv "$out/venv"
    from=
    [ -z "$wheels" ] || from="--no-index --find-links $wheels"
    # shellcheck disable=SC2086
    "$out/venv/bin/pip" install --quiet $from "gmlmdsl[train]"
    # shellcheck disable=SC2086
    [ "$extra" = cpu ] || "$out/venv/bin/pip" install --quiet $from "jax[$extra]"
    touch "$out/install.done"
  fi
  gmlm=$out/venv/bin/gmlm python=$out/venv/bin/python
fi

if [ ! -f "$out/smoke.done" ]; then # 2. a minute that says whether anything works at all
  say "smoke test"
  "$python" -c 'import jax; print(jax.devices())' >"$out/devices.txt" 2>&1 || true
  cat "$out/devices.txt"
  limit=60
  if grep -q CpuDevice "$out/devices.txt"; then
    limit=180 # compiling
    if [ -n "$installs" ] && [ "$extra" != cpu ]; then
      say "JAX finds no accelerator with its extra $extra: see $out/devices.txt; --extra cpu trains without one"
      exit 1
    fi
  fi
  rm -rf "$out/smoke" "$out/smoke.log"
  began=$(date +%s)
  for model in teacher translate; do
    left=$((limit + began - $(date +%s)))
    status=124
    # shellcheck disable=SC2086
    [ "$left" -le 0 ] || run timeout "$left" $gmlm train "$here/long.gmlm" "$train_source" "$train_target" --out "$out/smoke" --model "$model" \
      --limit 2000 --input source_vocab=1000 --input target_vocab=1000 --input layers=1 --input width=64 --steps 4 \
      --batch-size 16 --bucket 48 --precision bfloat16 >>"$out/smoke.log" 2>&1
    case $status in
      0) ;;
      124) say "the smoke test was not through in $limit s: see $out/smoke.log"; exit 124 ;;
      *) say "the smoke test failed with status $status: see $out/smoke.log"; exit "$status" ;;
    esac
  done
  touch "$out/smoke.done"
fi

if [ ! -f "$out/latency.json" ] && [ ! -f "$out/latency.failed" ]; then # 3. the published size, at random weights: tried once
  piece
  say "latency of the published size"
  run timeout 540 "$python" "$here/random_latency.py" "$here/base.gmlm" --sampler padir_4_5 --sampler padir_4_1 --sampler padir_1_1 \
    --sampler greedy --sampler beam --out "$out/latency.json" >"$out/latency.log" 2>&1
  if [ "$status" -ne 0 ]; then touch "$out/latency.failed"; fi
fi

defaults() { # inputs by name and value, without those that stand behind `--`: an input is given once
  given=$1
  shift
  for pair in "$@"; do
    case " $given" in *" ${pair%%=*}="*) ;; *) echo "--input $pair" ;; esac
  done
}

reached() { # what is kept of a run: a piece that changes nothing of it was too short
  find "$out/$1" \( -path '*/stages/*' -o -path '*/checkpoints/*' -o -path '*.chunks/*' \) -type f -exec ls -l {} + 2>/dev/null | cksum
}

for size in $sizes; do # 4. trainings, in pieces
  inputs=$(size_of "$size")
  # shellcheck disable=SC2086
  inputs=$(defaults "$*" $inputs)
  again=0
  if [ -f "$out/$size.done" ] && [ "$(cat "$out/$size.done")" != "$*" ]; then
    say "$size was made with other options behind --, and is kept: remove $out/$size.done to make it with these"
  fi
  while [ ! -f "$out/$size.done" ]; do
    piece
    before=$(reached "$size")
    say "$size, piece $used of this call"
    # shellcheck disable=SC2086
    run timeout --signal=TERM --kill-after=60 "${minutes}m" $gmlm pipeline "$here/long.gmlm" "$train_source" "$train_target" \
      --out "$out/$size" --validation "$val_source" --validation "$val_target" --test "$test_source" --test "$test_target" \
      --languages "$source-$target" $inputs --precision bfloat16 --batch-size 512 --bucket 24 --bucket 48 \
      --label-smoothing 0.1 --learning-rate 0.01 --teacher-steps 5000 --steps 10000 --evaluate-every 250 --patience 8 --save-every 250 "$@" \
      >>"$out/$size.log" 2>&1
    case $status in
      0) echo "$*" >"$out/$size.done"; say "$size is done: $out/$size/report.html" ;;
      124 | 137 | 143)
        if [ "$(reached "$size")" = "$before" ]; then again=$((again + 1)); else again=0; fi
        if [ "$again" -ge 3 ]; then say "$size: three pieces changed nothing; give longer ones (--minutes)"; exit 1; fi
        [ "$status" -ne 137 ] || say "$size was killed: by whom is not known, for want of memory perhaps (--batch-size behind --)" ;;
      *) say "$size failed with status $status: see $out/$size.log"; exit "$status" ;;
    esac
  done
done
if [ -f "$out/latency.failed" ]; then
  say "all is trained; latency was not measured: see $out/latency.log, and remove $out/latency.failed to try again"
  exit 1
fi
say "all is done"
