"""Loads a translation server with requests at several rates, and prints latencies, refusals and losses.

    gmlm serve student.bundle --warm-up test.en &
    python load_test.py http://127.0.0.1:8080 test.en --rate 2 --rate 8 --rate 32 --seconds 10

Requests of one line each are sent at fixed times, whether or not earlier ones are answered. A request is *answered* (200, with one
translation for its line), *refused* (503), or *lost* (anything else). The status is 1 if a request was lost.
"""

from __future__ import annotations

import argparse
import http.client
import json
import sys
import threading
import time
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

PATIENCE = 120  # seconds until an answer counts as lost
MOST = 2000  # requests of one rate


@dataclass(frozen=True)
class Load:
    """What became of the requests at one rate; seconds of those that were answered, ascending."""

    rate: float
    sent: int
    refused: int
    lost: int
    seconds: tuple[float, ...]

    def __str__(self) -> str:
        percentiles = [f"{1000 * self.seconds[int(q * (len(self.seconds) - 1))]:8.0f}" if self.seconds else "       -" for q in (0.5, 0.99)]
        return f"{self.rate:8g} {self.sent:6} {len(self.seconds):9} {self.refused:8} {self.lost:5} {' '.join(percentiles)}"


HEADER = f"{'rate/s':>8} {'sent':>6} {'answered':>9} {'refused':>8} {'lost':>5} {'p50 ms':>8} {'p99 ms':>8}"


def status_of(address: str, line: str) -> int:
    """The status of the answer to one line; 0 for none, or one without a translation."""
    connection = http.client.HTTPConnection(address, timeout=PATIENCE)
    try:
        connection.request("POST", "/translate", json.dumps({"lines": [line]}), {"Content-Type": "application/json"})
        answer = connection.getresponse()
        text = answer.read()
        return answer.status if answer.status != 200 or len(json.loads(text)["translations"]) == 1 else 0
    except (OSError, ValueError, http.client.HTTPException):
        return 0
    finally:
        connection.close()


def load(address: str, lines: list[str], rate: float, seconds: float) -> Load:
    """Send lines at a rate for some seconds, and wait for all answers."""
    count, found = min(max(1, int(rate * seconds)), MOST), []
    start = time.perf_counter()

    def one(k: int) -> None:
        sent = time.perf_counter()
        found.append((status_of(address, lines[k % len(lines)]), time.perf_counter() - sent))

    threads = [threading.Thread(target=one, args=(k,)) for k in range(count)]
    for k, thread in enumerate(threads):
        time.sleep(max(0.0, start + k / rate - time.perf_counter()))
        thread.start()
    for thread in threads:
        thread.join()
    statuses = [status for status, _ in found]
    answered = sorted(s for status, s in found if status == 200)
    return Load(rate, count, statuses.count(503), count - len(answered) - statuses.count(503), tuple(answered))


def main(url: str, text: Path, rates: list[float], seconds: float) -> int:
    lines = [line for line in text.read_text(encoding="utf-8").splitlines() if line.strip()]
    print(HEADER)
    lost = 0
    for rate in rates:
        print(found := load(urlsplit(url).netloc, lines, rate, seconds), flush=True)
        lost += found.lost
    return int(lost > 0)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("url", help="of the server")
    parser.add_argument("text", type=Path, help="lines to translate")
    parser.add_argument("--rate", type=float, action="append", metavar="R", help="requests a second; may be repeated")
    parser.add_argument("--seconds", type=float, default=10.0, help="of each rate")
    options = parser.parse_args()
    sys.exit(main(options.url, options.text, options.rate or [1.0, 4.0, 16.0, 64.0], options.seconds))
