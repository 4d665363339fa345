import pytest

from breadth.endpoints import Endpoint, is_exposed, key_env_problem, url_problem
from breadth.errors import InputError


@pytest.mark.parametrize(
    "url", ["http://localhost:8000/v1", "https://api.example.org/v1/", "http://[::1]:8000", "http://10.0.0.1/x/v1"]
)
def test_addresses(url):
    assert url_problem(url) is None


@pytest.mark.parametrize(
    ("url", "words"),
    [
        ("localhost:8000/v1", "is not an address"),
        ("ftp://host/v1", "is not an address"),
        ("http:///v1", "is not an address"),
        ("http://host:eighty/v1", "is not an address"),
        ("http://ho st/v1", "is not an address"),
        ("http://[::1/v1", "is not an address"),
        ("http://me:secret@host/v1", "a user or password"),
        ("https://host/v1?key=secret", "a query"),
        ("http://host/v1/chat/completions", "leave out what follows /v1"),
        ("http://host/v1/models/", "leave out what follows /v1"),
    ],
)
def test_wrong_addresses_are_not_repeated(url, words):
    problem = url_problem(url)
    assert words in problem
    assert "secret" not in problem


@pytest.mark.parametrize(
    "name", ["MY_KEY", "OPENAI_API_KEY", "my_key", "KEY2", "AZURE_OPENAI_API_KEY_2", "TEAM_VLLM_3_KEY"]
)
def test_names_of_variables(name):
    assert key_env_problem(name) is None


@pytest.mark.parametrize(
    "key",
    [
        "sk-proj-abc",
        "sk_live_51H8x9fRtU2b",
        "hf_abcDEFghiJKLmno123",
        "AKIAIOSFODNN7EXAMPLE",
        "my key",
        "",
        "4242",
        "ключ",
    ],
)
def test_keys_are_recognised_and_not_repeated(key):
    problem = key_env_problem(key)
    assert "never write a key into a study file" in problem
    assert not key or key not in problem


def test_the_key_comes_from_the_environment(monkeypatch):
    endpoint = Endpoint("http://localhost/v1", "m", key_env="BREADTH_TEST_KEY")
    monkeypatch.setenv("BREADTH_TEST_KEY", " abcd1234 \n")
    assert endpoint.key() == "abcd1234"
    assert "abcd1234" not in repr(endpoint)
    assert Endpoint("http://localhost/v1", "m").key() == ""
    monkeypatch.setenv("BREADTH_TEST_KEY", " ")
    with pytest.raises(InputError, match="BREADTH_TEST_KEY, which key_env names, is not set"):
        endpoint.key()
    monkeypatch.setenv("BREADTH_TEST_KEY", "abc\ndef")
    with pytest.raises(InputError, match="characters that a header cannot carry") as caught:
        endpoint.key()
    assert "def" not in str(caught.value)


def test_what_determines_answers():
    plain = Endpoint("http://localhost/v1", "m")
    assert plain.identity() == Endpoint("http://localhost/v1", "m", "auto", "K", 99, 1.0).identity()
    assert plain.identity() != Endpoint("http://localhost/v1", "m", "chat").identity()


def test_a_key_without_encryption():
    assert is_exposed(Endpoint("http://example.org/v1", "m", key_env="K"))
    for url, key_env in (
        ("https://example.org/v1", "K"),
        ("http://localhost:1/v1", "K"),
        ("http://example.org/v1", None),
    ):
        assert not is_exposed(Endpoint(url, "m", key_env=key_env))
