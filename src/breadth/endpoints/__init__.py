"""Models behind an endpoint: what a server that speaks the OpenAI-compatible protocol answers. Needs no torch.

``protocol`` builds requests and reads replies, ``client`` sends one with retries, ``asking`` many at once and keeps
answers as they come, ``connection`` finds out what a server can do, turns items into questions and answers into scores.
``study`` describes endpoints and ``execute`` asks them.
"""

from breadth.endpoints.asking import Journal, ask_all
from breadth.endpoints.client import (
    Api,
    Budget,
    BudgetSpentError,
    Client,
    Endpoint,
    RefusedError,
    is_exposed,
    key_env_problem,
    url_problem,
)
from breadth.endpoints.connection import AskedTestSet, Connection, Connections, Form, How, Kept, forms_of
from breadth.endpoints.protocol import Continued, KeptAnswer, Question, Tokens

__all__ = [
    "Api",
    "AskedTestSet",
    "Budget",
    "BudgetSpentError",
    "Client",
    "Connection",
    "Connections",
    "Continued",
    "Endpoint",
    "Form",
    "How",
    "Journal",
    "Kept",
    "KeptAnswer",
    "Question",
    "RefusedError",
    "Tokens",
    "ask_all",
    "forms_of",
    "is_exposed",
    "key_env_problem",
    "url_problem",
]
