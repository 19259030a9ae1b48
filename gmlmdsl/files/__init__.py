"""In: paths. Out: what can be read, lines of text, archives, the user's cache; files written whole or not at all. Never: models, NumPy."""

from __future__ import annotations

from ._archive import LONGEST as LONGEST
from ._archive import MANIFEST as MANIFEST
from ._archive import MOST as MOST
from ._archive import TAIL as TAIL
from ._archive import ArchiveKind as ArchiveKind
from ._archive import hash_of_texts as hash_of_texts
from ._archive import opened as opened
from ._archive import pack as pack
from ._archive import read_json as read_json
from ._archive import unpack as unpack
from ._archive import verify_count as verify_count
from ._cache import CACHE as CACHE
from ._cache import CacheEntries as CacheEntries
from ._cache import cache_folder as cache_folder
from ._damage import kinds_of_damage as kinds_of_damage
from ._lock import alone as alone
from ._text_lines import decoded_line as decoded_line
from ._text_lines import opened_text as opened_text
from ._text_lines import raw_lines as raw_lines
from ._whole_files import as_path as as_path
from ._whole_files import made_folder as made_folder
from ._whole_files import reading as reading
from ._whole_files import shipped_folder as shipped_folder
from ._whole_files import verify_plain as verify_plain
from ._whole_files import whole_file as whole_file
from ._whole_files import write_whole as write_whole
