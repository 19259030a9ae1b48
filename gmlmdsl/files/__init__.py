"""The package of files: readable paths, lines of text, archives, the user's cache.

In: paths. Out: readable files, lines of text, archives, the user's cache; files that are written
completely or not at all. Never: models, NumPy.
"""

from __future__ import annotations

from ._archive import MANIFEST, TAIL, ArchiveKind, kinds_of_damage, opened, pack, read_json, unpack, verify_count
from ._cache import CACHE, CacheEntries, cache_folder
from ._pretrained_folder import BESIDE, WEIGHTS, PretrainedFolder, read_pretrained, read_vocabulary, unusable
from ._saved_states import SavedStates, alone, asked_to_end, differing
from ._whole_files import (
    as_path,
    decoded_line,
    made_folder,
    opened_text,
    put_in_place,
    raw_lines,
    reading,
    settle,
    shipped_folder,
    verify_plain,
    whole_file,
    write_whole,
)
