"""Judge a few kernels with a judge of one's own and print, as JSON, what came of them."""

import json
import sys
from pathlib import Path

from tests.judging import HONEST, Courtroom, cpp, py

ENTRY = "int64_t rows, int64_t cols) {"
REACHING = (
    "#include <csignal>\n#include <cstdio>\n#include <sys/socket.h>\n#include <unistd.h>\n"
    "#include <initializer_list>\n#include <fcntl.h>\n#include <sys/resource.h>\n"
)
# Each leaves the outputs unwritten if it gets through.
ATTEMPTS = {
    "signals": "if (!kill(getppid(), 0) || !kill(-1, 0) || !kill(0, 0)) return;",
    "socket": "if (socket(AF_INET, SOCK_STREAM, 0) >= 0) return;",
    "secret": 'if (fopen("secret", "r")) return;',
    "writing": 'for (auto p : {"/tmp/x", "/dev/shm/x", "secret"}) if (fopen(p, "a")) return;',
    "fork": "if (fork() >= 0) return;",
}


def main():
    folder = Path.cwd()
    secret = folder / "secret"
    secret.write_text("of the judge's user")
    attempts = {k: v.replace('"secret"', f'"{secret}"') for k, v in ATTEMPTS.items()}
    kernels = {
        "honest": cpp(HONEST),
        "python": py(
            "import numpy as np\n"
            "def launch(x, out, rows, cols):\n"
            "    a, o = x.numpy(), out.numpy()\n"
            "    np.exp(a - a.max(-1, keepdims=True), out=o)\n"
            "    o /= o.sum(-1, keepdims=True)\n"
        ),
        "cheat": cpp(HONEST.replace(ENTRY, f"{ENTRY} static int n = 0; if (++n > 20) return;")),
        "broken": cpp("void launch() { foo(); }"),
        "crash": cpp(HONEST.replace(ENTRY, f"{ENTRY} *(volatile int*)8 = 1;")),
        **{
            name: cpp(REACHING + HONEST.replace(ENTRY, f"{ENTRY}\n  {text}", 1))
            for name, text in attempts.items()
        },
    }
    with Courtroom(folder) as court:
        hello = court.judge.bench.trio.zygote.hello
        wanted = sys.argv[1:] or list(kernels)
        checks = {name: getattr(court.screen(kernels[name]), "check", None) for name in wanted}
    said = {"missing": hello["missing"], "reason": hello["reason"], "checks": checks}
    sys.stdout.write(json.dumps(said))


if __name__ == "__main__":
    main()
