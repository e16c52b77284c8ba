"""Tests plug-ins for programs that serve models, and for libraries that load models.

`fastsafetensors`, `transformers` and `diffusers` are installed and run. vLLM and SGLang are too
large for that. For these two, the tests run stand-ins for the few names that the plug-ins use, and
contract tests compare these names with the sources of vLLM and SGLang.
"""

from __future__ import annotations

import ast
import importlib
import importlib.metadata
import os
import subprocess
import sys
import types
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import fetched
import interlace
from fetched import needs_fetching, packages, source

VLLM = ("vllm", "0.33.0", "f4c33c2503d52bb411146afa9618a4f48bed68912f617e6803ac8d76e4c74112")
SGLANG = "sglang==0.5.23"
FASTSAFETENSORS = "fastsafetensors==0.5.0"
LIBRARIES = ("transformers==5.24.0", "diffusers==0.42.1")


@pytest.fixture
def files(tmp_path: Path) -> list[str]:
    """Make two files of a model with three tensors, and return their paths."""
    shards = [
        {"model.experts.0.w.weight": np.ones((3, 2), np.float32), "unused": np.zeros(4, np.int8)},
        {"model.experts.1.w.weight": np.full((3, 2), 2, np.float32)},
    ]
    paths = [str(tmp_path / f"model-{number}.safetensors") for number in (2, 10)]
    for shard, path in zip(shards, paths, strict=True):
        interlace.save(shard, path)
    return paths[::-1]


@pytest.fixture
def modules(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Return a function that makes modules with the given names."""

    def make(**named: dict[str, Any]) -> None:
        for name, members in named.items():
            parts = name.split("__")
            for k in range(1, len(parts) + 1):
                dotted = ".".join(parts[:k])
                if dotted not in sys.modules:
                    monkeypatch.setitem(sys.modules, dotted, types.ModuleType(dotted))
            vars(sys.modules[".".join(parts)]).update(members)

    return make


def test_vllm_reads_by_interlace(files: list[str], modules: Any) -> None:
    fetched.torch()
    registered: dict[str, Any] = {}

    class DefaultModelLoader:
        local_expert_ids: set[int] | None = None
        counter_before_loading_weights = 0.0

        def __init__(self, load_config: Any) -> None:
            assert load_config.load_format == "safetensors"

        def _prepare_weights(
            self,
            model_name_or_path: str,
            subfolder: str | None,
            revision: str | None,
            fall_back_to_pt: bool,
            allow_patterns_overrides: list[str] | None,
        ) -> tuple[str, list[str], bool, str]:
            assert (subfolder, revision) == (None, "main")
            assert fall_back_to_pt
            assert allow_patterns_overrides is None
            return "", files, model_name_or_path != "old", ""

        def _get_weights_iterator(self, source: Any) -> Iterator[tuple[str, Any]]:
            return iter([(source.prefix, "vLLM's own")])

    modules(
        vllm__model_executor__model_loader={
            "register_model_loader": lambda name: lambda made: registered.setdefault(name, made)
        },
        vllm__model_executor__model_loader__default_loader={
            "DefaultModelLoader": DefaultModelLoader
        },
        vllm__model_executor__model_loader__ep_weight_filter={
            "should_skip_weight": lambda name, ids: ids is not None and "experts.0" in name
        },
    )
    from interlace.integrations import vllm

    vllm.register()
    config = SimpleNamespace(load_format="interlace")
    loader = registered["interlace"](config)
    assert config.load_format == "interlace"

    def read(model: str = "model", unused: Any = None) -> dict[str, Any]:
        source = SimpleNamespace(
            model_or_path=model,
            subfolder=None,
            revision="main",
            fall_back_to_pt=True,
            allow_patterns_overrides=None,
            prefix="a.",
            is_unused_weight=unused,
        )
        return dict(loader._get_weights_iterator(source))

    found = read()
    assert list(found) == ["a.model.experts.0.w.weight", "a.unused", "a.model.experts.1.w.weight"]
    assert found["a.model.experts.1.w.weight"].sum() == 12
    assert loader.counter_before_loading_weights > 0
    assert "a.unused" not in read(unused=lambda name: name == "unused")
    loader.local_expert_ids = {1}
    assert list(read()) == ["a.unused", "a.model.experts.1.w.weight"]
    assert read("old") == {"a.": "vLLM's own"}
    loader._encoder_only_lm_prefixes = ("language.",)
    assert read() == {"a.": "vLLM's own"}


def test_sglang_reads_by_interlace_if_it_is_named(
    files: list[str], modules: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    fetched.torch()
    from interlace.integrations import sglang

    hooks: dict[str, Any] = {}
    registry = SimpleNamespace(register=lambda target, hook, _: hooks.update({target: hook}))
    modules(
        sglang__srt__plugins__hook_registry={
            "HookRegistry": registry,
            "HookType": SimpleNamespace(AROUND="around"),
        }
    )
    for named in ("", "another"):
        monkeypatch.setenv("SGLANG_PLUGINS", named)
        sglang.register()
        assert hooks == {}
    monkeypatch.setenv("SGLANG_PLUGINS", "another, interlace")
    sglang.register()
    assert set(hooks) == set(sglang.READERS)
    for hook in hooks.values():
        found = dict(hook(None, files, max_workers=3, disable_mmap=False))
        assert found["model.experts.1.w.weight"].sum() == 12


def test_the_programs_find_their_plug_ins() -> None:
    for group, module in (("vllm.general_plugins", "vllm"), ("sglang.srt.plugins", "sglang")):
        (found,) = importlib.metadata.entry_points(group=group, name="interlace")
        assert found.value == f"interlace.integrations.{module}:register"
        assert callable(found.load())


def parameters(file: Path, *path: str) -> list[str]:
    """Return the parameters of a function or method in a source file."""
    node: Any = ast.parse(file.read_text(encoding="utf-8"))
    for name in path:
        node = next(one for one in node.body if getattr(one, "name", None) == name)
    return [one.arg for one in (*node.args.posonlyargs, *node.args.args)]


@needs_fetching
def test_vllm_has_what_its_plug_in_uses() -> None:
    loaders = source(*VLLM) / "vllm/model_executor/model_loader"
    default = loaders / "default_loader.py"
    assert parameters(loaders / "__init__.py", "register_model_loader") == ["load_format"]
    assert parameters(default, "DefaultModelLoader", "__init__") == ["self", "load_config"]
    assert parameters(default, "DefaultModelLoader", "_get_weights_iterator") == ["self", "source"]
    assert parameters(default, "DefaultModelLoader", "_prepare_weights") == [
        "self",
        "model_name_or_path",
        "subfolder",
        "revision",
        "fall_back_to_pt",
        "allow_patterns_overrides",
    ]
    assert parameters(loaders / "ep_weight_filter.py", "should_skip_weight") == [
        "weight_name",
        "local_expert_ids",
    ]
    text = default.read_text(encoding="utf-8")
    for field in ("model_or_path", "subfolder", "revision", "fall_back_to_pt", "prefix"):
        assert f"        {field}: " in text
    for field in ("allow_patterns_overrides", "is_unused_weight"):
        assert f"        {field}: " in text
    assert "self._encoder_only_lm_prefixes: " in text
    assert "self.local_expert_ids: " in text
    assert "counter_before_loading_weights: float = 0.0" in text
    plugins = (loaders.parents[1] / "plugins/__init__.py").read_text(encoding="utf-8")
    assert 'DEFAULT_PLUGINS_GROUP = "vllm.general_plugins"' in plugins


@needs_fetching
def test_sglang_has_what_its_plug_in_uses(
    files: list[str], modules: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    fetched.torch()
    from interlace.integrations import sglang

    own = packages("sglang", "--no-deps", SGLANG) / "sglang/srt"
    plugins = (own / "plugins/__init__.py").read_text(encoding="utf-8")
    assert 'GENERAL_PLUGINS_GROUP = "sglang.srt.plugins"' in plugins
    readers = own / "model_loader/weight_utils.py"
    for reader in sglang.READERS:
        assert parameters(readers, reader.rpartition(".")[2])[0] == "hf_weights_files"
    # SGLang's own registry wraps a reader even if another module has already imported the reader.
    modules(sglang__srt__model_loader__weight_utils={}, sglang__srt__model_loader__loader={})
    weight_utils = sys.modules["sglang.srt.model_loader.weight_utils"]
    loader: Any = sys.modules["sglang.srt.model_loader.loader"]
    for reader in sglang.READERS:
        name = reader.rpartition(".")[2]
        made = types.FunctionType((lambda _: "SGLang's own").__code__, {}, name)
        setattr(weight_utils, name, made)
        setattr(loader, name, made)
    spec = importlib.util.spec_from_file_location(
        "sglang.srt.plugins.hook_registry", own / "plugins/hook_registry.py"
    )
    assert spec is not None
    assert spec.loader is not None
    registry = importlib.util.module_from_spec(spec)
    modules(sglang__srt__plugins={})
    monkeypatch.setitem(sys.modules, spec.name, registry)
    spec.loader.exec_module(registry)
    monkeypatch.setenv("SGLANG_PLUGINS", "interlace")
    sglang.register()
    registry.HookRegistry.apply_hooks()
    for reader in sglang.READERS:
        found = dict(getattr(loader, reader.rpartition(".")[2])(files))
        assert found["model.experts.1.w.weight"].sum() == 12


def run(program: str, *arguments: str, folders: list[Path]) -> None:
    """Run a program that imports fetched packages."""
    path = os.pathsep.join([*map(str, folders), os.environ.get("PYTHONPATH", "")])
    ended = subprocess.run(
        [sys.executable, "-c", program, *arguments],
        env={**os.environ, "PYTHONPATH": path, "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert ended.returncode == 0, ended.stderr


@needs_fetching
def test_fastsafetensors_copies_by_interlace(files: list[str]) -> None:
    fetched.torch()
    run(
        """
import sys
import torch
from fastsafetensors.loader import BaseSafeTensorsFileLoader
from fastsafetensors.st_types import Device, DeviceType
import interlace.integrations.fastsafetensors as plug_in

def load(names=None):
    device = Device(DeviceType.CPU, None)
    loader = BaseSafeTensorsFileLoader(None, device, "interlace")
    assert loader.copier_class is plug_in.InterlaceCopier
    loader.set_tensor_filter(names)
    loader.add_filenames({0: sys.argv[1:]})
    buffer = loader.copy_files_to_device()
    found = {key: buffer.get_tensor(key) for key in loader.get_keys()}
    buffer.close()
    loader.close()
    return found

found = load()
assert set(found) == {"model.experts.0.w.weight", "model.experts.1.w.weight", "unused"}
assert torch.equal(found["model.experts.1.w.weight"], torch.full((3, 2), 2.0))
assert found["unused"].tolist() == [0, 0, 0, 0]
assert load(lambda name: name == "unused")["unused"].tolist() == [0, 0, 0, 0]

with open(sys.argv[1], "r+b") as cut:
    cut.truncate(cut.seek(0, 2) - 1)
try:
    load()
except Exception as error:
    assert "model-" in str(error), error
else:
    raise AssertionError("a cut file was read")
""",
        *files,
        folders=[packages("fastsafetensors", "--no-deps", FASTSAFETENSORS, "typer")],
    )


@needs_fetching
def test_transformers_and_diffusers_take_a_state_dict(tmp_path: Path) -> None:
    fetched.torch()
    run(
        """
import sys
import torch
import interlace
from diffusers import AutoencoderKL
from transformers import BertConfig, BertModel

folder = sys.argv[1]
config = BertConfig(
    vocab_size=50, hidden_size=16, num_hidden_layers=2, num_attention_heads=2, intermediate_size=32
)
model = BertModel(config)
model.save_pretrained(folder + "/bert", max_shard_size="10KB")
state = interlace.load(folder + "/bert")
read = BertModel.from_pretrained(None, config=config, state_dict=state)
for name, tensor in model.state_dict().items():
    assert torch.equal(read.state_dict()[name], tensor), name

model = AutoencoderKL(block_out_channels=(32,), latent_channels=2)
model.save_pretrained(folder + "/coder", max_shard_size="50KB")
read = AutoencoderKL.from_config(folder + "/coder")
read.load_state_dict(interlace.load(folder + "/coder"))
for name, tensor in model.state_dict().items():
    assert torch.equal(read.state_dict()[name], tensor), name
""",
        str(tmp_path),
        folders=[packages("libraries", *LIBRARIES)],
    )
