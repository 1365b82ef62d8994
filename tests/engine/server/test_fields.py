"""Every field that the official clients know is obeyed, refused in words, or known as harmless."""

import pytest
from anthropic.types.beta import message_create_params as beta_message
from anthropic.types.beta.beta_output_config_param import BetaOutputConfigParam
from anthropic.types.beta.beta_tool_param import BetaToolParam
from anthropic.types.message_count_tokens_params import MessageCountTokensParams
from anthropic.types.text_block_param import TextBlockParam
from anthropic.types.thinking_config_enabled_param import ThinkingConfigEnabledParam
from anthropic.types.tool_choice_tool_param import ToolChoiceToolParam
from anthropic.types.tool_result_block_param import ToolResultBlockParam
from anthropic.types.tool_use_block_param import ToolUseBlockParam
from openai.types import completion_create_params as completion
from openai.types.chat import completion_create_params as chat
from openai.types.chat.chat_completion_assistant_message_param import (
    ChatCompletionAssistantMessageParam,
)
from openai.types.chat.chat_completion_stream_options_param import ChatCompletionStreamOptionsParam
from openai.types.chat.chat_completion_tool_message_param import ChatCompletionToolMessageParam
from openai.types.chat.chat_completion_user_message_param import ChatCompletionUserMessageParam
from openai.types.responses import response_create_params as response
from openai.types.responses.function_tool_param import FunctionToolParam
from openai.types.responses.response_text_config_param import ResponseTextConfigParam
from openai.types.shared_params.function_definition import FunctionDefinition
from openai.types.shared_params.reasoning import Reasoning

from mlx_engine.server import anthropic_messages as messages
from mlx_engine.server import openai_chat, openai_responses, openai_text
from mlx_engine.values.errors import BadOption

CACHES = {"prompt_cache_key", "prompt_cache_options", "prompt_cache_retention", "service_tier"}
PEOPLE = {"metadata", "safety_identifier", "store", "user"}
ANTHROPIC = {
    "betas", "billing_policy", "cache_control", "diagnostics", "fallback_credit_token", "fallbacks",
    "inference_geo", "metadata", "service_tier", "speed", "user_profile_id", "workspace_id",
}  # fmt: skip
TOOL = {"cache_control", "defer_loading", "eager_input_streaming", "input_examples", "strict"}
HELLO = [{"role": "user", "content": "a"}]
CASES = [
    (
        openai_chat.ChatBody,
        chat.CompletionCreateParamsBase,
        {"messages": HELLO},
        {*CACHES, *PEOPLE, "prediction"},
    ),
    (openai_chat.ChatMessage, ChatCompletionUserMessageParam, HELLO[0], {"name"}),
    (openai_chat.ChatMessage, ChatCompletionAssistantMessageParam, HELLO[0], {"name", "refusal"}),
    (openai_chat.ChatMessage, ChatCompletionToolMessageParam, HELLO[0], set()),
    (openai_chat.StreamOptions, ChatCompletionStreamOptionsParam, {}, {"include_obfuscation"}),
    (openai_chat.Function, FunctionDefinition, {"name": "a"}, set()),
    (openai_text.CompletionBody, completion.CompletionCreateParamsBase, {"prompt": "a"}, {"user"}),
    (
        openai_responses.ResponseBody,
        response.ResponseCreateParamsBase,
        {"input": "a"},
        {*CACHES, *PEOPLE, "background_options", "max_tool_calls", "stream_options"},
    ),
    (openai_responses.Reasoning, Reasoning, {}, {"summary", "generate_summary"}),
    (openai_responses.TextFormat, ResponseTextConfigParam, {}, set()),
    (
        openai_responses.FunctionFields,
        FunctionToolParam,
        {"type": "function"},
        {"defer_loading", "output_schema", "strict"},
    ),
    (
        messages.MessagesBody,
        beta_message.MessageCreateParamsBase,
        {"max_tokens": 1, "messages": HELLO},
        ANTHROPIC,
    ),
    (messages.CountBody, MessageCountTokensParams, {"messages": HELLO}, ANTHROPIC),
    (messages.OutputConfig, BetaOutputConfigParam, {}, set()),
    (messages.ToolFields, BetaToolParam, {"name": "a"}, TOOL),
    (messages.ChoiceFields, ToolChoiceToolParam, {"type": "auto"}, {"name"}),
    (messages.Thinking, ThinkingConfigEnabledParam, {"type": "enabled"}, {"display"}),
    (messages.ContentBlock, TextBlockParam, {"type": "text"}, {"cache_control", "citations"}),
    (
        messages.ContentBlock,
        ToolUseBlockParam,
        {"type": "tool_use"},
        {"cache_control", "caller", "toolset_name"},
    ),
    (
        messages.ContentBlock,
        ToolResultBlockParam,
        {"type": "tool_result"},
        {"cache_control", "toolset_name"},
    ),
]


@pytest.mark.parametrize(("body", "client", "sound", "harmless"), CASES)
def test_no_field_of_the_clients_is_dropped_silently(body, client, sound, harmless):
    known = set(client.__annotations__)
    told = {field.alias or name for name, field in body.model_fields.items()}
    assert known - told - set(body.refused) - harmless == set()
    assert not told & set(body.refused)
    for name in known - set(sound):
        may_be_null = "Optional" in str(client.__annotations__[name])
        if may_be_null:
            body.model_validate({**sound, name: None})
    for name, refusal in body.refused.items():
        with pytest.raises(BadOption, match=f"{name}: .*[.]"):
            body.model_validate({**sound, name: {"a": "something"}})
        for value in (*refusal.but_for, False, [], {}):
            body.model_validate({**sound, name: value})


def test_efforts_and_edits_that_change_nothing_are_taken():
    body = messages.MessagesBody.model_validate(
        {
            "max_tokens": 1,
            "messages": HELLO,
            "context_management": {"edits": [{"type": "clear_thinking_20251015", "keep": "all"}]},
            "output_config": {"effort": "high"},
        }
    )
    assert body.arguments() == {"reasoning_effort": "high"}
    none = openai_chat.ChatBody.model_validate({"messages": HELLO, "reasoning_effort": "none"})
    assert none.arguments() == {"reasoning_effort": "none", "enable_thinking": False}
