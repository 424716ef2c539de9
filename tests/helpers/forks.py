"""Runs programs in forks of a process that has imported forebay and opened no driver: most of a start's time is saved.

`processes.python` chooses between this and a fresh process. As a program, this module serves the requests. A child ends
as a program does, which the children of the fork server of `multiprocessing` do not.
"""

import contextlib
import importlib
import json
import os
import runpy
import select
import socket
import subprocess
import sys
import tempfile
import threading
import warnings

MOST = 1 << 17  # bytes of a request
LOCK = threading.Lock()
GIVEN = {*os.environ}
IMPORTED = "asyncio", "click", "forebay.face", "forebay.queues.opencl.device", "platformdirs", "rich.console"


class Server:
    """The process that forks. `command` runs this file, and `env` is what its children have but for FOREBAY_."""

    def __init__(self, command, env):
        self.env = env
        self.socket, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            self.process = subprocess.Popen(command, env=env, stdin=theirs, stdout=subprocess.DEVNULL)

    def suits(self, env):
        """Whether a child may have this environment: libraries read some variables when they are loaded."""
        return all(name.startswith(("FOREBAY_", "PYTEST_")) for name, _ in {*self.env.items()} ^ {*env.items()})

    def run(self, arguments, env, cwd, timeout):
        """Like `subprocess.run` of Python with these arguments, whose output is text."""
        with LOCK, tempfile.TemporaryFile("w+", encoding="utf-8") as out, tempfile.TemporaryFile("w+") as err:
            request = json.dumps([arguments, env, str(cwd)]).encode()
            socket.send_fds(self.socket, [request], [out.fileno(), err.fileno()])
            pid = int(self.socket.recv(MOST))
            ended = select.select([self.socket], [], [], timeout)[0]
            if not ended:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, 9)
            status = int(self.socket.recv(MOST))
            out.seek(0)
            err.seek(0)
            done = subprocess.CompletedProcess(arguments, status, out.read(), err.read())
        if not ended:
            raise subprocess.TimeoutExpired(arguments, timeout, done.stdout, done.stderr)
        return done


def serve():
    """Fork for each request, in turn. Returns only in a child: with its arguments."""
    server = socket.socket(fileno=os.dup(0))
    while True:
        request, files, *_ = socket.recv_fds(server, MOST, 2)
        if not request:
            os._exit(0)
        pid = os.fork()
        if not pid:
            break
        for file in files:
            os.close(file)
        server.send(str(pid).encode())
        server.send(str(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])).encode())
    server.close()
    arguments, env, cwd = json.loads(request)
    for number, file in enumerate([os.open(os.devnull, os.O_RDONLY), *files]):
        os.dup2(file, number)
        os.close(file)
    os.chdir(cwd)
    for name in GIVEN - env.keys():  # pyopencl has set what its library reads
        del os.environ[name]
    os.environ.update(env)
    sys.modules["forebay.tracing"].begin_by_environment()  # as the import does
    return arguments


def play(arguments):
    """Do what Python does with these arguments."""
    while arguments[0] == "-W":
        warnings.simplefilter(arguments[1])
        arguments = arguments[2:]
    option, *rest = arguments
    sys.argv = [option, *rest[1:]] if option in ("-c", "-m") else [option, *rest]
    main = sys.modules["__main__"] = type(sys)("__main__")
    main.__builtins__ = __builtins__
    if option == "-c":
        sys.path[0] = ""
        exec(compile(rest[0], "<string>", "exec"), vars(main))
    elif option == "-m":
        sys.path[0] = os.getcwd()
        runpy._run_module_as_main(rest[0])
    else:
        sys.path[0] = os.path.dirname(os.path.abspath(option))
        with open(option, encoding="utf-8") as file:
            main.__file__, text = option, file.read()
        exec(compile(text, option, "exec"), vars(main))


if __name__ == "__main__":
    for name in IMPORTED:
        importlib.import_module(name)
    play(serve())
