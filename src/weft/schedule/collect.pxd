from weft.schedule.records cimport row_major
