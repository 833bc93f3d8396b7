"""Keys of owners: made, listed, revoked; and the door that asks for them."""

import asyncio
import hashlib
import sqlite3
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import httpx
import pytest
from click.testing import Result
from typer.testing import CliRunner

from app.api.middleware import check_address, is_loopback
from app.cli.main import cli
from app.errors import KeyRefused, KeyRequired, StartFailed
from app.settings import Settings
from app.storage import api_keys as keys
from app.storage.api_keys import Caller, KeyRing, add_key, ensure_key, list_keys, revoke_key
from app.storage.database import open_engine
from tests import fakes
from tests.app.keys import key_of, within
from tests.app.serving import Serving, app_of, wait_until

CHALLENGE = "www-authenticate"


def settings_of(state: Path, **more: object) -> Settings:
    return Settings(_env_file=None, data_dir=state, **more)


@pytest.fixture
def served(tmp_path: Path) -> Iterator[Serving]:
    parts = fakes.services(fakes.FakeRetriever([fakes.passage("The red tower is tall.")]))
    with Serving(app_of(parts, settings_of(tmp_path))) as serving:
        serving.app.state.keys._fresh_s = 0.0
        yield serving


@pytest.fixture(scope="module")
def keyless(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Serving]:
    """A service that nobody has made a key for."""
    parts = fakes.services(fakes.FakeRetriever([fakes.passage("The red tower is tall.")]))
    with Serving(app_of(parts, settings_of(tmp_path_factory.mktemp("keyless")))) as serving:
        yield serving


@pytest.fixture
def secret(served: Serving, tmp_path: Path) -> str:
    return key_of(tmp_path, "ann", "laptop")


def ask(served: Serving, headers: dict[str, str] | None = None) -> httpx.Response:
    return served.client.post("/ask", json={"question": "How tall?"}, headers=headers)


def bearer(secret: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {secret}"}


def problem_of(response: httpx.Response, status: int) -> str:
    assert response.status_code == status, response.text
    assert response.headers["content-type"] == "application/problem+json"
    body = response.json()
    assert body["status"] == status
    return str(body["detail"])


def test_without_keys_nobody_is_asked_for_one(keyless: Serving) -> None:
    assert ask(keyless).status_code == 200
    assert ask(keyless, bearer("anything")).status_code == 200


def test_from_the_first_key_on_everything_but_health_and_pages_asks_for_one(
    served: Serving, secret: str
) -> None:
    missing = ask(served)
    problem_of(missing, 401)
    assert missing.headers[CHALLENGE].startswith("Bearer ")
    for path in ("/workflows", "/metrics", "/openapi.json", "/nowhere", "//health/live"):
        problem_of(served.client.get(path), 401)
    for path in ("/health/live", "/health/ready", "/", "/docs"):
        assert served.client.get(path).status_code == 200


def test_a_key_lets_in(served: Serving, secret: str) -> None:
    for name in ("Bearer {}", "bearer {}", "BEARER  {}"):
        assert ask(served, {"Authorization": name.format(secret)}).status_code == 200
    assert ask(served, {"x-api-key": secret}).status_code == 200
    headers = {"Host": "rag.example.org", **bearer(secret)}
    assert served.client.get("/workflows", headers=headers).status_code == 200, "by any name"


def test_a_wrong_key_does_not(served: Serving, secret: str) -> None:
    for wrong in ("-", "scrag_", secret[:-1], secret + "x", secret.upper(), "é" * 40, "x" * 5000):
        sent = {"Authorization": f"Bearer {wrong}".encode()}
        response = served.client.post("/ask", json={"question": "How?"}, headers=sent)
        assert "KEY" in problem_of(response, 401) or "revoked" in problem_of(response, 401)
        assert f"{wrong} " not in response.text
    problem_of(ask(served, {"Authorization": f"Basic {secret}"}), 401)
    assert 'error="invalid_token"' in ask(served, bearer("scrag_x")).headers[CHALLENGE]


def test_the_door_is_shut_before_a_body_is_read(served: Serving, secret: str) -> None:
    huge = (b"x" * 10_000 for _ in range(1000))
    try:
        response = served.client.post("/ask", content=huge)
    except httpx.WriteError:
        return  # closed while we were sending
    problem_of(response, 401)


def test_a_key_allows_what_its_scopes_say(served: Serving, tmp_path: Path) -> None:
    secrets = {scope: key_of(tmp_path, "ann", scopes=[scope]) for scope in ("ask", "metrics")}
    for path, scope, other in (("/workflows", "ask", "metrics"), ("/metrics", "metrics", "ask")):
        assert served.client.get(path, headers=bearer(secrets[scope])).status_code == 200
        response = served.client.get(path, headers=bearer(secrets[other]))
        assert "scope" in problem_of(response, 403)
        assert 'error="insufficient_scope"' in response.headers[CHALLENGE]


def test_a_revoked_key_ends_at_once_and_the_service_stays_shut(
    served: Serving, secret: str, tmp_path: Path
) -> None:
    assert ask(served, bearer(secret)).status_code == 200
    (key,) = within(tmp_path, list_keys)
    assert within(tmp_path, lambda engine: revoke_key(engine, key.id))

    problem_of(ask(served, bearer(secret)), 401)
    problem_of(ask(served), 401)


async def test_a_revoked_key_works_for_a_second_at_most(tmp_path: Path) -> None:
    assert keys.FRESH_S <= 1
    async with open_engine(settings_of(tmp_path)) as engine:
        ring = KeyRing(engine, fresh_s=0.05)
        key, secret = await add_key(engine, "ann")
        assert await ring.holder(secret) == Caller("ann")
        await revoke_key(engine, key.id)
        await asyncio.sleep(0.06)
        with pytest.raises(KeyRefused):
            await ring.holder(secret)


async def test_guesses_cost_the_database_nothing(tmp_path: Path) -> None:
    async with open_engine(settings_of(tmp_path)) as engine:
        _, secret = await add_key(engine, "ann")
        ring = KeyRing(engine, fresh_s=60)
        await ring.holder(secret)
        await engine.dispose()
        (tmp_path / "selfcrag.db").write_bytes(b"")
        for guess in range(100):
            with pytest.raises(KeyRefused):
                await ring.holder(f"scrag_{guess}")
        with pytest.raises(KeyRequired):
            await ring.holder("")


def test_where_the_keys_cannot_be_read_nobody_is_let_in(
    served: Serving, secret: str, tmp_path: Path
) -> None:
    with sqlite3.connect(tmp_path / "selfcrag.db") as connection:
        connection.execute("ALTER TABLE keys RENAME TO gone")
    response = ask(served, bearer(secret))

    assert "cannot be read" in problem_of(response, 503)
    assert int(response.headers["retry-after"]) > 0
    assert served.client.get("/health/live").status_code == 200


def test_a_key_is_kept_as_a_hash_alone(served: Serving, secret: str, tmp_path: Path) -> None:
    ask(served, bearer(secret))
    assert secret.startswith("scrag_")
    assert len(secret) >= 6 + 43, "256 bits"
    files = list(tmp_path.glob("selfcrag.db*"))
    kept = subprocess.run(["cat", *files], check=True, capture_output=True).stdout
    assert secret.encode() not in kept
    assert secret[6:].encode() not in kept
    assert hashlib.sha256(secret.encode()).hexdigest().encode() in kept


def test_the_last_use_is_written_down(tmp_path: Path) -> None:
    parts = fakes.services(fakes.FakeRetriever())
    secret = key_of(tmp_path, "ann")
    with Serving(app_of(parts, settings_of(tmp_path))) as serving:
        assert serving.client.get("/workflows", headers=bearer(secret)).status_code == 200
    (key,) = within(tmp_path, list_keys)
    assert key.last_used_at is not None
    assert key.last_used_at >= key.created_at


async def test_the_last_use_is_written_while_serving(tmp_path: Path) -> None:
    async with open_engine(settings_of(tmp_path)) as engine:
        _, secret = await add_key(engine, "ann")
        ring = KeyRing(engine)
        await ring.holder(secret)
        ring._noted_at_s -= keys.NOTED_EVERY_S
        await ring.holder(secret)
        assert ring._noting is not None
        await ring._noting
        (key,) = await list_keys(engine)
        assert key.last_used_at is not None


@pytest.mark.parametrize("owner", ["", "a b", "a'b", 'a"b', "a\nb", "a" * 65, "../x", "a;b"])
def test_an_owner_is_a_plain_name(tmp_path: Path, owner: str) -> None:
    with pytest.raises(keys.InvalidKey):
        key_of(tmp_path, owner)
    assert within(tmp_path, list_keys) == []


def test_a_chinese_owner_is_one(tmp_path: Path) -> None:
    key, _ = within(tmp_path, lambda engine: add_key(engine, "张三", "笔记本"))
    assert within(tmp_path, list_keys) == [key]
    assert (key.owner, key.name) == ("张三", "笔记本")


def test_a_first_key_is_made_once(tmp_path: Path) -> None:
    first = within(tmp_path, lambda engine: ensure_key(engine, "owner"))
    assert first is not None
    assert within(tmp_path, lambda engine: ensure_key(engine, "owner")) is None
    (key,) = within(tmp_path, list_keys)
    within(tmp_path, lambda engine: revoke_key(engine, key.id))
    assert within(tmp_path, lambda engine: ensure_key(engine, "owner")) is None


# --- the command line ---------------------------------------------------------


@pytest.fixture
def command(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, clean_environment: None
) -> Callable[..., Result]:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SELFCRAG_DATA_DIR", str(tmp_path))
    monkeypatch.setenv("COLUMNS", "160")
    return lambda *words: CliRunner().invoke(cli, ["keys", *words])


def test_a_list_for_a_pipe_is_whole(
    command: Callable[..., Result], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    owner, name = "ann.of.the.long.department@example.org", "安的笔记本电脑 in the office"
    assert command("add", owner, "--name", name).exit_code == 0
    _, line = command("list").stdout.splitlines()
    assert owner in line
    assert name in line


def test_the_command_adds_lists_and_revokes(command: Callable[..., Result], tmp_path: Path) -> None:
    made = command("add", "ann", "--name", "laptop", "--scope", "ask", "--scope", "documents")
    secret = made.stdout.strip()
    assert made.exit_code == 0, made.output
    assert secret.startswith("scrag_")
    assert made.stdout == f"{secret}\n", "the key alone, for a pipe"
    (key,) = within(tmp_path, list_keys)
    assert key.scopes == ("ask", "documents")
    listed = command("list").stdout
    for told in (key.id, "ann", "laptop", "ask documents"):
        assert told in listed
    assert secret not in listed
    assert command("revoke", key.id).exit_code == 0
    (revoked,) = within(tmp_path, list_keys)
    assert revoked.revoked_at is not None
    assert command("ensure", "ann").stdout == ""


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("add", "a b"), "no blanks"),
        (("add", "ann", "--scope", "all"), "unknown scope 'all'"),
        (("revoke", "12345678"), "no key 12345678"),
    ],
)
def test_the_command_tells_mistakes_in_one_line(
    command: Callable[..., Result], words: tuple[str, ...], told: str
) -> None:
    result = command(*words)
    assert result.exit_code == 1
    assert result.stderr.startswith("selfcrag: ")
    assert result.stderr.count("\n") == 1
    assert told in result.stderr
    assert result.stdout == ""


# --- where the service may listen ---------------------------------------------


@pytest.mark.parametrize("host", ["127.0.0.1", "127.8.8.8", "::1", "localhost", "LOCALHOST."])
def test_loopback_needs_no_key(tmp_path: Path, host: str) -> None:
    assert is_loopback(host)
    asyncio.run(check_address(settings_of(tmp_path, host=host)))
    assert not (tmp_path / "selfcrag.db").exists()


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "", "192.168.1.7", "example.org", "127.0.0.1.a"])
def test_other_machines_need_a_key_or_a_proxy(tmp_path: Path, host: str) -> None:
    open_to_all = settings_of(tmp_path, host=host)
    with pytest.raises(
        StartFailed, match=r"selfcrag keys add OWNER.*SELFCRAG_ALLOW_ANONYMOUS=true"
    ):
        asyncio.run(check_address(open_to_all))
    asyncio.run(check_address(settings_of(tmp_path, host=host, allow_anonymous=True)))
    key_of(tmp_path, "ann")
    asyncio.run(check_address(open_to_all))


def test_serving_others_without_a_key_is_one_clear_line(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, clean_environment: None
) -> None:
    monkeypatch.chdir(tmp_path)
    result = CliRunner().invoke(cli, ["serve", "--host", "0.0.0.0", "--port", "0"])
    assert result.exit_code == 1
    assert result.stderr.count("\n") == 1
    assert "selfcrag keys add OWNER" in result.stderr


# --- pages in a browser on this machine ----------------------------------------


@pytest.mark.parametrize(
    "host", ["evil.example", "127.0.0.1.evil.example", "", "[::", "localhost@e"]
)
@pytest.mark.parametrize("path", ["/workflows", "/openapi.json", "/metrics"])
def test_a_foreign_name_is_refused(keyless: Serving, host: str, path: str) -> None:
    response = keyless.client.get(path, headers={"Host": host})
    assert "SELFCRAG_ALLOWED_HOSTS" in problem_of(response, 403)
    assert keyless.client.get("/health/live", headers={"Host": host}).status_code == 200


@pytest.mark.parametrize(
    "host", ["localhost", "localhost:8000", "127.0.0.1:1", "[::1]:8000", "LocalHost"]
)
def test_our_own_names_are_answered(keyless: Serving, host: str) -> None:
    assert keyless.client.get("/workflows", headers={"Host": host}).status_code == 200


FOREIGN = [
    {"Origin": "https://evil.example", "Sec-Fetch-Site": "cross-site"},
    {"Origin": "https://evil.example"},
    {"Origin": "null", "Sec-Fetch-Site": "cross-site"},
    {"Origin": "null"},
    {"Origin": "http://127.0.0.1:1", "Sec-Fetch-Site": "same-site"},
    {"Origin": "http://127.0.0.1:1"},
    {"Sec-Fetch-Site": "cross-site"},
]


@pytest.mark.parametrize("headers", FOREIGN)
def test_a_page_of_another_origin_may_not_ask(keyless: Serving, headers: dict[str, str]) -> None:
    """Nor with a content type that needs no preflight."""
    assert "SELFCRAG_CORS_ORIGINS" in problem_of(ask(keyless, headers), 403)
    sent = {**headers, "Content-Type": "text/plain"}
    problem_of(keyless.client.post("/ask", content=b'{"question": "How?"}', headers=sent), 403)
    assert "access-control-allow-origin" not in ask(keyless, headers).headers


def test_our_own_page_and_programs_may(keyless: Serving) -> None:
    for headers in (
        {"Origin": keyless.url, "Sec-Fetch-Site": "same-origin"},
        {"Origin": keyless.url},
        {"Sec-Fetch-Site": "none"},
        {},
    ):
        assert ask(keyless, headers).status_code == 200


def test_a_listed_origin_may_ask_and_read(tmp_path: Path) -> None:
    parts = fakes.services(fakes.FakeRetriever([fakes.passage("The red tower is tall.")]))
    ours = "https://chat.example.org"
    settings = settings_of(tmp_path, cors_origins=(ours,))
    with Serving(app_of(parts, settings)) as serving:
        headers = {"Origin": ours, "Sec-Fetch-Site": "cross-site"}
        wanted = {
            "Access-Control-Request-Method": "POST",
            "Access-Control-Request-Headers": "authorization, content-type, x-stainless-os",
        }
        key_of(tmp_path, "ann")
        serving.app.state.keys._fresh_s = 0.0
        preflight = serving.client.options("/ask", headers={**headers, **wanted})
        assert preflight.status_code == 200
        assert preflight.headers["access-control-allow-origin"] == ours
        refused = ask(serving, headers)
        problem_of(refused, 401)
        assert refused.headers["access-control-allow-origin"] == ours, "its page can read why"
        other = {**headers, "Origin": "https://evil.example"}
        assert "access-control-allow-origin" not in ask(serving, other).headers


def test_listed_hosts_and_proxies_are_answered(tmp_path: Path) -> None:
    parts = fakes.services(fakes.FakeRetriever())
    name = {"Host": "rag.example.org"}
    listed = settings_of(tmp_path / "a", allowed_hosts=("rag.example.org",))
    with Serving(app_of(parts, listed)) as serving:
        assert serving.client.get("/workflows", headers=name).status_code == 200
        problem_of(serving.client.get("/workflows", headers={"Host": "b.example.org"}), 403)
    with Serving(app_of(parts, settings_of(tmp_path / "b", allow_anonymous=True))) as serving:
        assert serving.client.get("/workflows", headers=name).status_code == 200
        headers = {**name, "Origin": "https://rag.example.org"}
        assert ask(serving, headers).status_code == 200
        problem_of(ask(serving, {**name, **FOREIGN[0]}), 403)


def test_a_key_added_while_serving_is_known_within_a_second(tmp_path: Path) -> None:
    parts = fakes.services(fakes.FakeRetriever())
    with Serving(app_of(parts, settings_of(tmp_path))) as serving:
        assert serving.client.get("/workflows").status_code == 200
        key_of(tmp_path, "ann")
        wait_until(lambda: serving.client.get("/workflows").status_code == 401, 5)
