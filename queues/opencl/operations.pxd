from forebay.core.driver cimport Memory, Status, Waits
