"""Pipeline parallel: a model cut into stages, one or several on each rank, through which microbatches go one after the
other. `stage` runs one of them, `schedules` say in which order, `messages` bring values to other ranks. Start with
`schedules`."""
