import signal
import subprocess
import sys
import urllib.request


def test_view_answers_until_it_is_stopped(simulated_study):
    command = [sys.executable, "-m", "breadth", "view", str(simulated_study.folder), "--port", "0"]
    server = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        address = server.stdout.readline().strip()
        assert address.startswith("http://127.0.0.1:")
        with urllib.request.urlopen(address, timeout=20) as answer:
            assert "plain-study" in answer.read().decode()
    finally:
        server.send_signal(signal.SIGINT)
        _, errors = server.communicate(timeout=20)
    assert server.returncode == 0
    assert errors == ""


def test_no_directory(breadth, tmp_path):
    out = breadth("view", tmp_path / "nothing", ok=False)
    assert out.returncode == 2
    assert "is not a directory" in out.stderr
