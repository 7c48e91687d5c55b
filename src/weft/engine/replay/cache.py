# cython: language_level=3
"""Caches for replay: one admission policy, one bound in bytes, LRU eviction, one way to clear, one record of counts.

A client makes a `Cache`, asks whether it `admits` a structure, finds a `CacheEntry` by its fingerprint and keeps new
ones. The least recently used entries are evicted when the bound is reached. `clear` empties all caches; `text` is a
line for people.
"""

from weakref import WeakSet

import cython
from cython.cimports.weft.engine.replay.cache import RECENT_ENTRIES
from cython.cimports.weft.engine.replay.fingerprint import Fingerprint
from cython.cimports.weft.engine.replay.look_table import LookTable

from weft._build.compiled import require

require(__name__, cython.compiled)

MOST_BYTES = 64 << 20  # the bound of a cache's entries together, by estimate
MOST_LOOKS = 1 << 16
MOST_MISSES = 10
FREE_MISSES = 3  # misses before a look is put off

CACHES: dict = {}  # name -> cache, in the order of the pipeline
tally: dict = {}  # the counters of each
_all: WeakSet = WeakSet()  # a name may have several: calls have one for each function


@cython.final
@cython.cclass
class CacheCounters:
    """Counts of the caches of one name in this process, read as a mapping: structures noted and stored, hits, entries
    evicted."""

    def __getitem__(self, name: str) -> int:
        return dict(self)[name]

    def __iter__(self):
        counts = {"noted": self.noted, "stored": self.stored}
        yield from {**counts, "hits": self.hits, "evicted": self.evicted}.items()


@cython.final
@cython.cclass
class Admission:
    """The admission policy: a structure is worth a fingerprint, or a trace, once it has come `unseen` times. A look (a
    number that is equal for equal structures) that turns out to be new again and again is put off for longer and
    longer."""

    def __cinit__(self, unseen: cython.int = 1):
        self.states = LookTable(MOST_LOOKS)  # how many more are put off, with the misses above
        self.unseen = unseen

    @cython.cfunc
    @cython.exceptval(-1, check=False)
    def admits(self, look: cython.longlong) -> cython.bint:
        """True if this look is admitted; notes that it has come."""
        state: cython.longlong = self.states.get(look)
        if state < 0:
            if self.unseen == 0:
                return True
            self.states.put(look, self.unseen - 1)
            return False
        if state & 0xFFFF == 0:
            return True
        self.states.put(look, state - 1)
        return False

    @cython.cfunc
    @cython.exceptval(-1, check=False)
    def knows(self, look: cython.longlong) -> cython.bint:
        """True if this look has come before; notes nothing."""
        return self.states.get(look) >= 0

    @cython.cfunc
    @cython.exceptval(-1, check=False)
    def miss(self, look: cython.longlong) -> cython.int:
        """Note that an admitted look was new, or cannot be kept: after several misses it is put off for longer and
        longer."""
        state: cython.longlong = max(0, self.states.get(look))
        misses: cython.longlong = min(MOST_MISSES, (state >> 16) + 1)
        put_off: cython.longlong = 0 if misses <= FREE_MISSES else 1 << misses
        return self.states.put(look, misses << 16 | put_off)

    @cython.cfunc
    @cython.exceptval(-1, check=False)
    def succeed(self, look: cython.longlong) -> cython.int:
        """Note that an admitted look was found."""
        if self.states.get(look) > 0:
            self.states.put(look, 0)
        return 0

    def __len__(self) -> int:
        return len(self.states)


@cython.cclass
class CacheEntry:
    """The value that a cache keeps for one fingerprint. Clients derive their own."""


def _last_use(entry: CacheEntry) -> int:
    return entry.used


@cython.final
@cython.cclass
class Cache:
    """Entries by fingerprint. Caches of one name share their counters; `clear` knows all of them."""

    def __cinit__(self, name: str, unseen: cython.int = 1):
        self.name = name
        self.most_bytes = MOST_BYTES
        self.admission = Admission(unseen)
        self.entries = {}
        self.recent = [None] * RECENT_ENTRIES
        self.counters = tally.setdefault(name, CacheCounters())
        _all.add(self)

    @cython.cfunc
    @cython.exceptval(-1, check=False)
    def admits(self, look: cython.longlong) -> cython.bint:
        """True if this look is worth a fingerprint, or a trace."""
        if self.admission.admits(look):
            return True
        self.counters.noted += 1
        return False

    @cython.cfunc
    def find(self, key: Fingerprint) -> CacheEntry:
        """The entry of a fingerprint, confirmed by full comparison, or None. Clients count what they use as a hit."""
        slot: cython.Py_ssize_t = key.hash % RECENT_ENTRIES
        entry: CacheEntry = self.recent[slot]
        if entry is None or entry.key.hash != key.hash:
            entry = self.entries.get(key.hash)
            if entry is None:
                return None
            self.recent[slot] = entry
        if not entry.key.equals(key):
            return None
        self.uses += 1
        entry.used = self.uses
        return entry

    @cython.cfunc
    @cython.exceptval(-1, check=False)
    def keep(self, key: Fingerprint, entry: CacheEntry, nbytes: cython.Py_ssize_t) -> cython.int:
        """Keep an entry that takes about `nbytes` in addition to its fingerprint; others are evicted if there is no
        room."""
        self.counters.stored += 1
        previous: CacheEntry = self.entries.pop(key.hash, None)
        if previous is not None:
            self.drop(previous)
        key.shrink()
        entry.key = key
        self.uses += 1
        entry.used = self.uses
        entry.nbytes = nbytes + key.nbytes()
        self.nbytes += entry.nbytes
        self.entries[key.hash] = entry
        while self.nbytes > self.most_bytes and len(self.entries) > 1:
            self.evict()
        return 0

    @cython.cfunc
    @cython.exceptval(-1, check=False)
    def evict(self) -> cython.int:
        """Let go of what has waited longest: an eighth of the entries at once, since finding them takes a sort."""
        oldest: list = sorted(self.entries.values(), key=_last_use)
        for entry in oldest[: len(oldest) // 8 + 1]:
            del self.entries[cython.cast(CacheEntry, entry).key.hash]
            self.drop(entry)
            self.counters.evicted += 1
        return 0

    @cython.cfunc
    @cython.exceptval(-1, check=False)
    def drop(self, entry: CacheEntry) -> cython.int:
        """An entry has left."""
        self.nbytes -= entry.nbytes
        slot: cython.Py_ssize_t = entry.key.hash % RECENT_ENTRIES
        if self.recent[slot] is entry:
            self.recent[slot] = None
        return 0

    def __len__(self) -> int:
        return len(self.entries)

    def clear(self):
        """Forget everything, also what has come."""
        self.entries.clear()
        self.admission.states.clear()
        self.recent = [None] * RECENT_ENTRIES
        self.nbytes = 0


def named(name: str, unseen: int = 1) -> Cache:
    """Make the cache of a client, which `clear` and `text` know."""
    CACHES[name] = Cache(name, unseen)
    return CACHES[name]


def clear():
    """Forget what all caches hold."""
    for cache in list(_all):
        cache.clear()


def text() -> str:
    """One line: what each cache holds, and what has happened to it."""
    held = {name: f"{len(cache)} kept in {cache.nbytes >> 10} kB" for name, cache in CACHES.items()}
    told = [
        f"{name} {counts.hits} of {counts.hits + counts.stored + counts.noted} known"
        f" ({held.get(name, 'none kept')}, {counts.evicted} evicted)"
        for name, counts in tally.items()
    ]
    return "replay: " + "; ".join(told)
