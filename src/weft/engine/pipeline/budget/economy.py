# cython: language_level=3
"""Economy: where there is no budget, the layout of a program that comes again, in an arena.

It takes a Lowering in which each computed value has a slot of its own, and adds a Layout. Values share the arena's
memory as under a budget (`layout`), and those are computed again that cost next to nothing for what they free at the
peak (`choose`). Programs that are new, small, or of small kernels are planned by slots (`memory_plan`): it takes less
time.
"""

import cython
from cython.cimports.weft.engine.pipeline.budget.schedule import BudgetSchedule
from cython.cimports.weft.engine.pipeline.launch_ir import Lowering
from cython.cimports.weft.engine.pipeline.memory_plan import Plan

from weft._build.compiled import require
from weft.engine.pipeline.budget.choose import choose_cheap
from weft.engine.pipeline.budget.constrain import adopt, is_bounded, own_bytes
from weft.engine.pipeline.budget.layout import laid_out
from weft.engine.pipeline.budget.step_graph import StepGraph
from weft.engine.pipeline.memory_plan import shares_slots

require(__name__, cython.compiled)

LEAST_BYTES = 1 << 22  # of a program's slots
LEAST_BYTES_OF_A_KERNEL = 1 << 14  # of its slots: a layout takes about 50 us for each kernel
MOST_MORE_TIME = 0.01  # for computing again, by estimate, as a share of the program's time
LEAST_SHARE = 0.4  # of the memory without computing again: less is not looked for
MOST_TIME_OF_SEARCH = 0.2  # for what to compute again, as a share of the program's time
ROUND_NS = 6_000.0  # of the search, for each step of the program


def pays(plan: Plan) -> bool:
    """True if a program that has come before is worth a layout."""
    if is_bounded() or plan.program.is_cold or not shares_slots():
        return False
    total: cython.longlong = sum(plan.sizes)
    return total >= max(LEAST_BYTES, LEAST_BYTES_OF_A_KERNEL * len(plan.program.kernels))


def economize(lowering: Lowering) -> None:
    """Lay a program out in an arena, with what is cheap computed again."""
    graph = StepGraph(lowering)
    whole: BudgetSchedule = BudgetSchedule(graph, {})
    rounds = int(MOST_TIME_OF_SEARCH * whole.cost / (ROUND_NS * (len(graph.costs) + 1)))
    cost, peak = whole.cost * (1 + MOST_MORE_TIME), int(whole.peak * LEAST_SHARE)
    adopt(lowering, laid_out(graph, choose_cheap(graph, cost, peak, rounds)), own_bytes(graph))
