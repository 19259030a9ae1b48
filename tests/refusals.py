"""What a call is refused with."""

from collections.abc import Callable

import pytest

from gmlmdsl import GmlmError


def refused(code: str, call: Callable[[], object], *parts: str) -> None:
    """`call` raises one fault, of this code, whose text has all `parts`."""
    with pytest.raises(GmlmError) as caught:
        call()
    assert caught.value.codes == (code,), str(caught.value)
    for part in parts:
        assert part in str(caught.value)
