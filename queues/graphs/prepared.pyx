"""What the launches of a graph submit, with all that this needs."""

cimport cython

from forebay.core.driver cimport COPY_COMMAND, Command, Memory
from forebay.core.epochs cimport release_epochs
from forebay.core.plan cimport Plan, delete_plan
from forebay.core.state cimport release_device_state
from forebay.core.uses cimport release_uses
from forebay.queues.graphs.submission cimport COMMANDS, HOST_CALL, Step, StepKind, Submission


@cython.no_gc_clear
cdef class Prepared:
    """Owns what a graph submits. It is given back once the device is done with it."""

    def __cinit__(self) -> None:
        self.submission = new Submission()
        self.submission.needs_start = self.submission.follows = False
        self.submission.room = 0
        self.submission.last_queue = NULL
        self.submission.last_epoch = 0

    def __dealloc__(self):
        cdef size_t i
        for i in range(self.submission.steps.size()):
            if self.submission.steps[i].recording != NULL:
                self.driver.release_recording(self.submission.steps[i].recording)
        for i in range(self.submission.uses.size()):
            release_uses(self.submission.uses[i].uses)
        if self.submission.last_queue != NULL:
            release_epochs(self.submission.last_queue)
        del self.submission
        for i in range(self.plans.size()):
            delete_plan(self.plans[i])
        if self.state != NULL:
            release_device_state(self.state)

    cdef int add(self, Command command, Plan* following=NULL) except -1:
        cdef Submission* submission = self.submission
        cdef bint alone = following != NULL and self.driver.follow != NULL  # such kernels are not recorded
        if alone or self.cut or submission.steps.back().kind != COMMANDS:
            self.add_step(COMMANDS, submission.commands.size(), 0)
        submission.commands.push_back(command)
        submission.following.push_back(following)
        submission.steps[submission.steps.size() - 1].count += 1
        self.cut = alone
        return 0

    cdef int add_step(self, StepKind kind, size_t first, size_t count) except -1:
        self.submission.steps.push_back(Step(kind, first, count, NULL, self.lane, False, False, 0, 0, 0))
        self.cut = False
        return 0

    cdef int add_host(self, object function) except -1:
        self.add_step(HOST_CALL, len(self.functions), 1)
        self.functions.append(function)
        return 0

    cdef int add_copy(self, const Memory* to, const Memory* source, size_t nbytes) except -1:
        cdef Command command
        command.kind = COPY_COMMAND
        command.to = to[0]
        command.source = source[0]
        command.nbytes = nbytes
        return self.add(command)
