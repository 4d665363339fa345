"""Language models: loading, encoding, evaluation with one scorer per scoring kind, fine-tuning. Needs the ``lm`` extra.

Names are imported when first used, because most need torch; ``models``, ``fetch``, ``extra``, ``prompts``, ``scores``,
``placement``, ``pickled``, ``chat``, ``checkpoints``, ``kept_files``, ``alike`` and ``weight_files`` do not.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from breadth.lm.alike import check_alike as check_alike
    from breadth.lm.alike import computing_settings as computing_settings
    from breadth.lm.alike import config_path as config_path
    from breadth.lm.alike import tokenizer_paths as tokenizer_paths
    from breadth.lm.alike import tokenizer_sum as tokenizer_sum
    from breadth.lm.batches import Batch as Batch
    from breadth.lm.borrowed import as_found as as_found
    from breadth.lm.borrowed import borrow as borrow
    from breadth.lm.chat import AUTO as AUTO
    from breadth.lm.chat import NONE as NONE
    from breadth.lm.chat import Chat as Chat
    from breadth.lm.chat import ChatSettings as ChatSettings
    from breadth.lm.chat import has_chat_template as has_chat_template
    from breadth.lm.chat import read_chat_template as read_chat_template
    from breadth.lm.checkpoints import Checkpoint as Checkpoint
    from breadth.lm.checkpoints import base_of as base_of
    from breadth.lm.checkpoints import find_checkpoints as find_checkpoints
    from breadth.lm.checkpoints import find_revisions as find_revisions
    from breadth.lm.checkpoints import is_settled as is_settled
    from breadth.lm.checkpoints import pattern_of as pattern_of
    from breadth.lm.checkpoints import readable as readable
    from breadth.lm.checkpoints import step_of as step_of
    from breadth.lm.checkpoints import weight_paths as weight_paths
    from breadth.lm.evaluation import EncodedTestSet as EncodedTestSet
    from breadth.lm.evaluation import compute_outputs as compute_outputs
    from breadth.lm.evaluation import encode_testset as encode_testset
    from breadth.lm.evaluation import evaluate_model as evaluate_model
    from breadth.lm.evaluation import keep_batches as keep_batches
    from breadth.lm.evaluation import keep_frozen_states as keep_frozen_states
    from breadth.lm.evaluation import score_outputs as score_outputs
    from breadth.lm.extra import require_lm as require_lm
    from breadth.lm.fetch import Stage as Stage
    from breadth.lm.fetch import fetch_model as fetch_model
    from breadth.lm.keeping import estimate_kept_bytes as estimate_kept_bytes
    from breadth.lm.keeping import kept_bytes as kept_bytes
    from breadth.lm.keeping import save_weights as save_weights
    from breadth.lm.kept_files import base_name as base_name
    from breadth.lm.kept_files import kept_fault as kept_fault
    from breadth.lm.kept_files import read_weights_record as read_weights_record
    from breadth.lm.kept_files import record_weights as record_weights
    from breadth.lm.kept_files import refuse_damaged_weights as refuse_damaged_weights
    from breadth.lm.lanes import lane_count as lane_count
    from breadth.lm.lanes import map_in_lanes as map_in_lanes
    from breadth.lm.layers import attach_ia3 as attach_ia3
    from breadth.lm.layers import attach_lora as attach_lora
    from breadth.lm.layers import trainable as trainable
    from breadth.lm.layers import unfreeze as unfreeze
    from breadth.lm.layers import unfreeze_biases as unfreeze_biases
    from breadth.lm.loading import HUB_ID as HUB_ID
    from breadth.lm.loading import LanguageModel as LanguageModel
    from breadth.lm.loading import load_model as load_model
    from breadth.lm.loading import locate as locate
    from breadth.lm.loading import with_chat as with_chat
    from breadth.lm.models import BUILT_IN as BUILT_IN
    from breadth.lm.models import built_in_model as built_in_model
    from breadth.lm.models import describe_models as describe_models
    from breadth.lm.models import fault_of as fault_of
    from breadth.lm.models import model_folder as model_folder
    from breadth.lm.pickled import Weights as Weights
    from breadth.lm.pickled import check_pickled as check_pickled
    from breadth.lm.pickled import convert_pickled as convert_pickled
    from breadth.lm.pickled import has_pickled as has_pickled
    from breadth.lm.pickled import has_safetensors as has_safetensors
    from breadth.lm.pickled import pickled_digest as pickled_digest
    from breadth.lm.pickled import pickled_paths as pickled_paths
    from breadth.lm.pickled import weight_size as weight_size
    from breadth.lm.placement import BFLOAT16 as BFLOAT16
    from breadth.lm.placement import MIXED as MIXED
    from breadth.lm.placement import NO_LOSS_SCALE as NO_LOSS_SCALE
    from breadth.lm.placement import PURE_BFLOAT16 as PURE_BFLOAT16
    from breadth.lm.placement import PURE_WARNING as PURE_WARNING
    from breadth.lm.placement import Dtype as Dtype
    from breadth.lm.placement import Quantisation as Quantisation
    from breadth.lm.placement import available_memory as available_memory
    from breadth.lm.precision import prepare_training as prepare_training
    from breadth.lm.prompts import encode_continuations as encode_continuations
    from breadth.lm.prompts import few_shot_text as few_shot_text
    from breadth.lm.prompts import prompt_texts as prompt_texts
    from breadth.lm.scores import SCORES as SCORES
    from breadth.lm.scores import Outputs as Outputs
    from breadth.lm.scores import choice_scores as choice_scores
    from breadth.lm.scores import cut_at_stop as cut_at_stop
    from breadth.lm.scores import pattern_scores as pattern_scores
    from breadth.lm.scores import written_scores as written_scores
    from breadth.lm.scoring import SCORERS as SCORERS
    from breadth.lm.scoring import Continuations as Continuations
    from breadth.lm.scoring import NextToken as NextToken
    from breadth.lm.scoring import Requests as Requests
    from breadth.lm.scoring import Scorer as Scorer
    from breadth.lm.scoring import register_scorer as register_scorer
    from breadth.lm.scoring import scorer_of as scorer_of
    from breadth.lm.split_model import SplitModel as SplitModel
    from breadth.lm.swapping import LoraAdapters as LoraAdapters
    from breadth.lm.swapping import SwappableModel as SwappableModel
    from breadth.lm.swapping import WholeWeights as WholeWeights
    from breadth.lm.swapping import changed_top as changed_top
    from breadth.lm.tiny import write_tiny_model as write_tiny_model
    from breadth.lm.train_set import EncodedTrainSet as EncodedTrainSet
    from breadth.lm.train_set import TrainSet as TrainSet
    from breadth.lm.train_set import encode_train_set as encode_train_set
    from breadth.lm.training import Trainer as Trainer
    from breadth.lm.training import derived_seed as derived_seed
    from breadth.lm.weight_files import group_sums as group_sums
    from breadth.lm.weight_files import read_tensor_headers as read_tensor_headers

_MODULES = {
    "alike": ("check_alike", "computing_settings", "config_path", "tokenizer_paths", "tokenizer_sum"),
    "batches": ("Batch",),
    "borrowed": ("as_found", "borrow"),
    "chat": ("AUTO", "NONE", "Chat", "ChatSettings", "has_chat_template", "read_chat_template"),
    "checkpoints": (
        *("Checkpoint", "base_of", "find_checkpoints", "find_revisions", "is_settled", "pattern_of", "readable"),
        *("step_of", "weight_paths"),
    ),
    "evaluation": (
        *("EncodedTestSet", "compute_outputs", "encode_testset", "evaluate_model", "keep_batches"),
        *("keep_frozen_states", "score_outputs"),
    ),
    "extra": ("require_lm",),
    "fetch": ("Stage", "fetch_model"),
    "keeping": ("estimate_kept_bytes", "kept_bytes", "save_weights"),
    "kept_files": ("base_name", "kept_fault", "read_weights_record", "record_weights", "refuse_damaged_weights"),
    "lanes": ("lane_count", "map_in_lanes"),
    "layers": ("attach_ia3", "attach_lora", "trainable", "unfreeze", "unfreeze_biases"),
    "loading": ("HUB_ID", "LanguageModel", "load_model", "locate", "with_chat"),
    "models": ("BUILT_IN", "built_in_model", "describe_models", "fault_of", "model_folder"),
    "placement": (
        *("BFLOAT16", "MIXED", "NO_LOSS_SCALE", "PURE_BFLOAT16", "PURE_WARNING", "Dtype", "Quantisation"),
        *("available_memory",),
    ),
    "precision": ("prepare_training",),
    "pickled": (
        *("Weights", "check_pickled", "convert_pickled", "has_pickled", "has_safetensors", "pickled_digest"),
        *("pickled_paths", "weight_size"),
    ),
    "prompts": ("encode_continuations", "few_shot_text", "prompt_texts"),
    "scores": ("SCORES", "Outputs", "choice_scores", "cut_at_stop", "pattern_scores", "written_scores"),
    "scoring": ("SCORERS", "Continuations", "NextToken", "Requests", "Scorer", "register_scorer", "scorer_of"),
    "split_model": ("SplitModel",),
    "swapping": ("LoraAdapters", "SwappableModel", "WholeWeights", "changed_top"),
    "tiny": ("write_tiny_model",),
    "train_set": ("EncodedTrainSet", "TrainSet", "encode_train_set"),
    "training": ("Trainer", "derived_seed"),
    "weight_files": ("group_sums", "read_tensor_headers"),
}
_MODULE_OF = {name: module for module, names in _MODULES.items() for name in names}

__all__ = [*_MODULE_OF]  # noqa: PLE0604


def __getattr__(name: str) -> Any:
    if name not in _MODULE_OF:
        raise AttributeError(f"module 'breadth.lm' has no attribute {name!r}")
    return getattr(import_module(f"breadth.lm.{_MODULE_OF[name]}"), name)
