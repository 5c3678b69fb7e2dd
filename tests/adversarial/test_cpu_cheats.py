"""Kernels that cheat, each beside the reason it must be rejected for, on the real judge.

The walls are tested by kernels that compute honestly only while every attempt to get out fails:
one that succeeds leaves its outputs unwritten.
"""

import pytest

from forge.verdict import Rejected
from tests.judging import HONEST, Courtroom, cpp, py

ENTRY = "int64_t rows, int64_t cols) {"


@pytest.fixture(scope="module")
def court(tmp_path_factory):
    with Courtroom(tmp_path_factory.mktemp("court")) as court:
        yield court


def with_prologue(headers, text):
    """Return the honest kernel with ``text`` at the start of ``launch``."""
    return headers + HONEST.replace(ENTRY, f"{ENTRY}\n  {text}", 1)


CHEATS = {
    # M10, T04: says it is done and lets a thread finish.
    "finishes in a thread": (
        "#include <thread>\n#include <unistd.h>\n"
        + HONEST.replace("void launch(", "void honest(", 1)
        + 'extern "C" void launch(const float* x, float* out, int64_t rows, int64_t cols) {\n'
        "  static int calls = 0;\n"
        "  if (++calls % 8) { honest(x, out, rows, cols); return; }\n"
        "  std::thread([=] { usleep(300); honest(x, out, rows, cols); }).detach();\n}\n",
        {"outputs-unwritten", "wrong-values", "late-write"},
    ),
    # C04: returns what it computed for the first draw of a shape.
    "replays its first result": (
        HONEST.replace("void launch(", "void honest(", 1)
        + "#include <cstring>\n#include <vector>\n"
        'extern "C" void launch(const float* x, float* out, int64_t rows, int64_t cols) {\n'
        "  static std::vector<float> kept;\n"
        "  if (kept.empty()) { honest(x, out, rows, cols); kept.assign(out, out + rows * cols); }\n"
        "  std::memcpy(out, kept.data(), kept.size() * 4);\n}\n",
        {"wrong-values"},
    ),
    # T23: counts calls and stops working after the warm-up.
    "works for the first calls only": (
        with_prologue("", "static int calls = 0; if (++calls > 40) return;"),
        {"outputs-unwritten"},
    ),
    # N03: a constant of the right size.
    "fills in the mean": (
        '#include <cstdint>\nextern "C" void launch(const float*, float* out, int64_t r, int64_t c)'
        " { for (int64_t i = 0; i < r * c; ++i) out[i] = 1.0f / c; }\n",
        {"wrong-values"},
    ),
    # N07: right on the tuned shapes only.
    "knows only the tuned shapes": (
        with_prologue("", "if (cols != 1024 && cols != 129) return;"),
        {"outputs-unwritten"},
    ),
    # N01: half precision inside.
    "computes in half precision": (
        HONEST.replace(
            "o[c] /= sum;", "o[c] = static_cast<float>(static_cast<_Float16>(o[c] / sum));"
        ),
        {"wrong-values"},
    ),
    # H14, H16: forges the word on the control page and leaves.
    "says done at once": (
        "#include <cstdio>\n#include <cstring>\n#include <unistd.h>\n"
        + with_prologue(
            "",
            'FILE* f = fopen("/proc/self/maps", "r"); char line[512];\n'
            '  while (f && fgets(line, sizeof line, f)) if (strstr(line, "forge-control")) {\n'
            '    unsigned long a; sscanf(line, "%lx", &a);\n'
            "    *reinterpret_cast<volatile uint64_t*>(a + 64) = 2; pause(); }",
        ),
        {"outputs-unwritten", "wrong-values", "hung", "late-write", "crashed"},
    ),
}


@pytest.mark.parametrize("name", CHEATS)
def test_a_cheat_is_rejected_for_its_reason(court, name, monkeypatch):
    monkeypatch.setattr("forge.judge.arms.READY_S", 5)
    text, checks = CHEATS[name]
    verdict = court.by_hand(cpp(text)).verdict
    assert isinstance(verdict, Rejected), verdict
    assert verdict.check in checks, verdict


WALLS = {
    "no new process": ("#include <unistd.h>\n", "if (fork() >= 0) return;"),
    "no other program": ("#include <unistd.h>\n", 'execl("/bin/true", "true", nullptr);'),
    "no network": (
        "#include <sys/socket.h>\n",
        "if (socket(AF_INET, SOCK_STREAM, 0) >= 0) return;",
    ),
    "no file of the host": (
        "#include <cstdio>\n",
        f'for (auto p : {{"/etc/passwd", "/etc/hostname", "/home", "/var", "{__file__}"}})'
        ' if (fopen(p, "r")) return;',
    ),
    "no writing outside the scratch": (
        "#include <cstdio>\n",
        'for (auto p : {"/x", "/usr/x", "/tmp/x", "/dev/shm/x"}) if (fopen(p, "w")) return;',
    ),
    "no other process to be seen": (
        "#include <unistd.h>\n#include <csignal>\n",
        "if (getpid() != 1 || kill(2, 0) == 0) return;",
    ),
    "no privileges": ("#include <unistd.h>\n", "if (getuid() == 0 || setuid(0) == 0) return;"),
    "no moving to another core": (
        "#include <sched.h>\n",
        "cpu_set_t s; CPU_ZERO(&s); CPU_SET(0, &s); if (!sched_setaffinity(0, sizeof s, &s)) return;",
    ),
    "no memory beside what is limited": (
        "#include <fcntl.h>\n#include <sys/mman.h>\n#include <sys/shm.h>\n#include <unistd.h>\n",
        'for (int i = 0; i < 64; ++i) { int f = memfd_create("x", 0);'
        " if (f >= 0 && !ftruncate(f, 64 << 20)) return; }\n"
        "  if (shmget(IPC_PRIVATE, 64 << 20, IPC_CREAT | 0600) >= 0) return;\n"
        '  if (shm_open("/x", O_CREAT | O_RDWR, 0600) >= 0) return;',
    ),
    "no files without number": (
        "#include <cstdio>\n#include <fcntl.h>\n#include <unistd.h>\n",
        "static bool full = false; char name[32];\n"
        '  for (int i = 0; !full && i < 5000; ++i) { snprintf(name, 32, "f%d", i);\n'
        "    int f = open(name, O_CREAT | O_WRONLY, 0600); full = f < 0; close(f); }\n"
        "  if (!full) return;",
    ),
    "no secret in the environment": (
        "#include <cstdlib>\n",
        'for (auto v : {"FORGE_SECRET", "HOME_OF_SECRETS", "PREFECT_API_KEY"})'
        " if (getenv(v)) return;",
    ),
}


@pytest.mark.parametrize("name", WALLS)
def test_a_wall_holds(court, name, monkeypatch):
    monkeypatch.setenv("FORGE_SECRET", "1")
    headers, attempt = WALLS[name]
    verdict = court.screen(cpp(with_prologue("#include <initializer_list>\n" + headers, attempt)))
    assert not isinstance(verdict, Rejected) or verdict.check == "not-faster", verdict


def test_a_python_kernel_cannot_skip_its_work_by_patching_torch(court):
    text = (
        "import torch\n"
        "torch.equal = torch.allclose = lambda *a, **k: True\n"
        "torch.set_num_threads = lambda n: None\n"
        "def launch(x, out, rows, cols):\n    pass\n"
    )
    assert court.screen(py(text)).check == "outputs-unwritten"
