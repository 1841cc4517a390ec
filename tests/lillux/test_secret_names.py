import pytest

from lillux.secret_names import says_secret

SECRET = """
KEY key APIKEY api_key api-key apiKey x-goog-api-key AWS_ACCESS_KEY_ID KEYBOARD_TOKEN
TOKEN MYTOKEN GitHubToken ADMIN_TOKENS PASSWORD dbPassword passwd PASSPHRASE MYSQL_PWD
CREDENTIALS Authorization author_token authorised Set-Cookie bearer session_id SESSION
signature XDG_SESSION_COOKIE SENTRY_DSN GITHUB_PAT --pat DATABASE_URL connectionString WEBHOOK jwt
"""
ORDINARY = """
HOME PATH pattern COMPAT_MODE passage bypass monk max_tokens MAX_OUTPUT_TOKENS maxTokens
total_tokens tokenizer keyword keywords KEYBOARD author GIT_AUTHOR_NAME public_key sort_key
PWD OLDPWD XDG_SESSION_TYPE DESKTOP_SESSION
"""


@pytest.mark.parametrize("name", [*SECRET.split(), "client secret", "connection string"])
def test_a_name_with_a_word_for_a_secret_says_so(name: str) -> None:
    assert says_secret(name)


@pytest.mark.parametrize("name", ["", *ORDINARY.split()])
def test_an_ordinary_name_says_no_secret(name: str) -> None:
    assert not says_secret(name)
