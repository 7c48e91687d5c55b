from weft.engine.devices.tuning cimport Costs
from weft.engine.ir.node cimport Node

cpdef double cost_of(Costs costs, Node node)
