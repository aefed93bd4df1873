"""An agent's policy, and the files that it names: mistakes are told at once."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

pytest.importorskip("psutil", reason="needs the extra agent")
pytest.importorskip("cryptography", reason="needs the extra agent")

from tracekit.agent.policy import KEYS, Policy, read_policy
from tracekit.agent.reporting import fleet_key
from tracekit.cli.main import main
from tracekit.errors import TracekitError, UsageError


def test_every_mistake_of_a_policy_at_once(tmp_path):
    path = tmp_path / "p.toml"
    path.write_text(
        '[budget]\ncpv = "1%"\nloss = "200%"\ndisk_mb = "a"\n[whem]\nidle = 1\n'
        '[predict]\ndesigns = ["ns_8w", "ns_8w"]\nepoch = 1.5\n[hub]\nurl = "ftp://x"\n'
        '[agent]\nuser = "no such user"\n'
    )
    with pytest.raises(UsageError) as e:
        read_policy(path)
    text = str(e.value)
    for part in (
        "budget.cpv is no key (did you mean cpu?)", "budget.loss is no share",
        "budget.disk_mb is no number", "[whem] is no table of a policy (did you mean when?)",
        "names a design twice", "predict.epoch is no whole number", "hub.url is no https URL",
        "agent.user is no user",
    ):  # fmt: skip
        assert part in text, part
    assert "\n" not in text and str(path) in text


@pytest.mark.parametrize("table", KEYS)
def test_each_key_is_read(table, tmp_path):
    values = {
        "executables": '["/usr/bin/*"]', "except": '["/bin/x"]', "cgroups": '["/user.slice/*"]',
        "cpu": '"1%"', "loss": "0.002", "disk_mb": "10", "idle": "false", "mains": "false",
        "designs": '["ns_rob"]', "model": '"/m"', "store": '"/x"', "update_hours": "1",
        "days_off": "3", "epoch": "5000", "distance": "0.2",
        "copy_seconds": "9", "traces": "true", "days": "7", "state": '"/s"', "scan_seconds": "3",
        "user": '"nobody"', "url": '"https://hub"', "token_file": '"/t"', "key_file": '"/k"',
        "authority": '"/a"', "group": '"laptops"', "report_minutes": "5", "queue_mb": "1",
        "labels": '{"/usr/bin/py*" = "python"}',
    }  # fmt: skip
    text = f"[{table}]\n" + "".join(f"{k} = {values[k]}\n" for k in KEYS[table])
    if os.geteuid() == 0 and table != "agent":
        text += '[agent]\nuser = "nobody"\n'
    elif os.geteuid() != 0:
        text = text.replace('user = "nobody"\n', "")
    path = tmp_path / "p.toml"
    path.write_text(text)
    found = read_policy(path)
    for key, (name, _) in KEYS[table].items():
        if key != "user":
            assert getattr(found, name) != getattr(Policy(), name), key


@pytest.mark.parametrize("url", ["http://example.com", "https://[::1", "http://127.0.0.1.evil"])
def test_a_hub_is_reached_by_tls(tmp_path, url):
    path = tmp_path / "p.toml"
    path.write_text(f'[hub]\nurl = "{url}"\ntoken_file = "t"\nkey_file = "k"\n')
    with pytest.raises(UsageError, match=r"hub\.url is no https URL"):
        read_policy(path)


def test_paths_are_absolute_wherever_the_agent_runs(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", "/home/x")
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "p.toml"
    text = '[predict]\nmodel = "m"\nstore = "~/s"\n[agent]\nstate = "t"\n'
    text += 'user = "nobody"\n' if os.geteuid() == 0 else ""
    hub = '[hub]\nurl = "https://h"\ntoken_file = "~/k"\nkey_file = "k"\nauthority = "a"\n'
    path.write_text(text + hub)
    p = read_policy(path)
    assert (p.store, p.token_file) == ("/home/x/s", "/home/x/k")
    here = [p.model, p.state, p.key_file, p.authority]
    assert here == [str(tmp_path / name) for name in ("m", "t", "k", "a")]
    assert Policy().folder == Path("/home/x/.local/state/tracekit-agent")
    path.write_text(text.replace('"m"', '"repository:m"'))
    assert read_policy(path).model == "repository:m"
    path.write_text(text.replace('"m"', '"~nobody-at-all/m"'))
    with pytest.raises(UsageError, match=r"predict\.model is in a home that is not known"):
        read_policy(path)


def test_who_is_admitted():
    p = Policy(executables=("/usr/*",), excluded=("*/gpg",), cgroups=("/user*",),
               labels={"/usr/bin/py*": "python"})  # fmt: skip
    assert p.admits("/usr/bin/python3", "/user.slice")
    assert not p.admits("/usr/bin/gpg", "/user.slice")
    assert not p.admits("/usr/bin/python3", "/system.slice")
    assert not p.admits("/opt/x", "/user.slice")
    assert p.label("/usr/bin/python3") == "python" and p.label("/usr/bin/gpg") is None


def test_a_fleet_s_key(tmp_path):
    """White space is stripped of text alone: random bytes may begin or end with it."""
    place = tmp_path / "key"
    place.touch(0o600)
    for data, key in (
        (b"\n" + b"\x80" * 30 + b" ", b"\n" + b"\x80" * 30 + b" "),
        (b"\t" + b"\x00\xff" * 16, b"\t" + b"\x00\xff" * 16),
        (b"0123456789abcdef" * 2 + b"\n", b"0123456789abcdef" * 2),
        (b" 0123456789abcdef\n0123456789abcdef\n", b"0123456789abcdef\n0123456789abcdef"),
    ):
        place.write_bytes(data)
        assert fleet_key(str(place)) == key
    place.write_bytes(b"x" * 31 + b"\n")
    with pytest.raises(TracekitError, match="shorter than 32 bytes"):
        fleet_key(str(place))


def test_a_design_that_the_model_lacks_is_told_at_the_start(tmp_path, capsys):
    policy = tmp_path / "p.toml"
    user = 'user = "nobody"\n' if os.geteuid() == 0 else ""
    text = f'[agent]\n{user}state = "{tmp_path}/s"\n[predict]\ndesigns = '
    run = ["agent", "run", "--policy", str(policy), "--seconds", "0.1"]
    policy.write_text(text + '["ns_8w", "ns_8ww"]\n')
    assert main(run) == 2
    said = capsys.readouterr().err
    assert "predict.designs" in said and "ns_8ww" in said and "Traceback" not in said
    policy.write_text(text + '["ns_8w"]\n')
    assert main(run) == 0
    # a model that is not there yet may come by an update
    policy.write_text(text + f'["ns_8w"]\nmodel = "repository:m"\nstore = "{tmp_path}/none"\n')
    capsys.readouterr()
    assert main(run) == 0
    assert '"no model"' in capsys.readouterr().err
