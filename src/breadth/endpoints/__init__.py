"""Models behind an endpoint: what a server that speaks the OpenAI-compatible protocol answers. Needs no torch.

``protocol`` builds requests and reads replies, ``client`` sends one with retries, ``asking`` many at once, ``journal``
keeps answers as they come, ``connection`` finds out what a server can do, ``testsets`` turns items into questions and
answers into scores. ``study`` describes endpoints and ``execute`` asks them.
"""

from breadth.endpoints.address import Api, Endpoint, is_exposed, key_env_problem, url_problem
from breadth.endpoints.asking import ask_all
from breadth.endpoints.client import Budget, BudgetSpentError, Client, RefusedError
from breadth.endpoints.connection import Connection, Connections, Kept
from breadth.endpoints.journal import Answer, Journal
from breadth.endpoints.protocol import Continued, Question, Tokens
from breadth.endpoints.testsets import AskedTestSet, Form, How, forms_of

__all__ = [
    "Answer",
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
    "Question",
    "RefusedError",
    "Tokens",
    "ask_all",
    "forms_of",
    "is_exposed",
    "key_env_problem",
    "url_problem",
]
