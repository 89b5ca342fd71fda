"""On Windows users read one sentence, not a traceback."""

import subprocess
import sys

WINDOWS = "import sys; sys.platform = 'win32'; sys.modules['fcntl'] = None\n"
"""Makes an interpreter look like one on Windows, which has no ``fcntl``."""


def run(program: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-c", WINDOWS + program], capture_output=True, text=True, check=False)


def test_the_command_names_wsl() -> None:
    done = run("from graveler.cli.main import main; raise SystemExit(main(['repo', 'list']))")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("error: graveler works on Linux and macOS; on Windows, run it in WSL")
    assert len(done.stderr.splitlines()) == 1


def test_the_python_api_names_wsl() -> None:
    done = run(
        "import graveler\ntry:\n    graveler.open('lake')\nexcept graveler.UnavailableError as error:\n    print(error)"
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert "in WSL" in done.stdout
