"""A Chromium without a window, driven through pipes (Chrome DevTools Protocol)."""

import fcntl
import json
import os
import shutil
import subprocess

PROGRAM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
AWAY_FROM_3_AND_4 = 20  # the numbers that the browser's ends of the pipes get


class Browser:
    """``with Browser(folder) as browser:`` `folder` is for its profile."""

    def __init__(self, folder):
        to_browser, self.commands = os.pipe()
        self.answers, from_browser = os.pipe()
        ends = [fcntl.fcntl(end, fcntl.F_DUPFD, AWAY_FROM_3_AND_4) for end in (to_browser, from_browser)]
        options = ["--headless=new", "--no-sandbox", "--disable-gpu", "--remote-debugging-pipe"]
        script = f'exec "$@" 3<&{ends[0]} 4>&{ends[1]}'
        command = ["bash", "-c", script, "bash", PROGRAM, *options, f"--user-data-dir={folder}"]
        nothing = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.DEVNULL)
        self.process = subprocess.Popen(command, pass_fds=ends, **nothing)
        for end in (to_browser, from_browser, *ends):
            os.close(end)
        self.read = b""
        self.number = 0
        self.page = None

    def __enter__(self):
        return self

    def __exit__(self, *exc_info):
        self.process.terminate()
        self.process.wait()
        os.close(self.commands)
        os.close(self.answers)

    def call(self, method, **parameters):
        """Call a method of the protocol, and return its result."""
        self.number += 1
        message = {"id": self.number, "method": method, "params": parameters}
        if self.page:
            message["sessionId"] = self.page
        text = json.dumps(message).encode() + b"\0"
        while text:
            text = text[os.write(self.commands, text) :]
        while True:
            while b"\0" not in self.read:
                more = os.read(self.answers, 1 << 16)
                assert more, "the browser has ended"
                self.read += more
            answer, self.read = self.read.split(b"\0", 1)
            answer = json.loads(answer)
            if answer.get("id") == self.number:
                if "error" in answer:
                    raise RuntimeError(answer["error"]["message"])
                return answer["result"]

    def open(self, url):
        """Open a page, which `evaluate` is for from then on."""
        self.page = None
        target = self.call("Target.createTarget", url=url)["targetId"]
        self.page = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]

    def wait_for(self, script):
        """Return when an expression is true. The page may load itself again meanwhile."""
        while True:
            try:
                if self.evaluate(f"new Promise(done => setTimeout(() => done({script}), 100))"):
                    return
            except RuntimeError as error:
                if "context" not in str(error):
                    raise

    def evaluate(self, script):
        """The value of JavaScript in the page; of a promise when it is there."""
        answer = self.call("Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in answer, answer["exceptionDetails"]
        return answer["result"].get("value")
