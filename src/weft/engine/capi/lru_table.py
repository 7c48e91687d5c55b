# cython: language_level=3
"""A bounded dictionary that evicts the least recently used entry (LRU).

Things that a program can make anew without end, such as kernels, are kept in one. What an entry owns dies with it
unless something else holds it, too.
"""

from collections import OrderedDict

import cython

from weft._build.compiled import require

require(__name__, cython.compiled)


@cython.final
@cython.cclass
class LruTable:
    """At most `most` entries, which may be set anew. No value is None."""

    def __init__(self, most: cython.Py_ssize_t):
        self.most = most
        self._entries = OrderedDict()

    @cython.ccall
    def get(self, key: object) -> object:
        """The value of a key, which counts as a use; None if it is absent."""
        value = self._entries.get(key)
        if value is not None:
            self._entries.move_to_end(key)
        return value

    @cython.ccall
    def put(self, key: object, value: object) -> cython.void:
        """Give a key a value; where there are too many now, the least recently used ones are forgotten."""
        self._entries[key] = value
        self._entries.move_to_end(key)
        self._forget()

    @cython.cfunc
    def _forget(self) -> cython.void:
        while len(self._entries) > self.most:
            self._entries.popitem(last=False)

    def __len__(self) -> int:
        return len(self._entries)

    def __contains__(self, key: object) -> bool:
        return key in self._entries

    def clear(self):
        """Forget everything."""
        self._entries.clear()
