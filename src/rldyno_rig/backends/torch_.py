"""PyTorch: eager, `torch.compile`, AOTInductor packages, and CUDA graphs.

A mode is a learner: `torch_eager` has what all share, `torch_compiled` and `torch_captured` the others, and
`torch_maths` what they compute. Times in comments of all these files are of one core, with what `put` takes,
of a network 4-120-84-2, unless they say otherwise. nn.Module, clip_grad_norm_ and optim.Adam(fused=True) take
650 µs for a DQN update of 32 rows (MLP 4-128-128-2), where eager mode takes 430 µs.
"""

from __future__ import annotations

from typing import Any, Dict, Optional

import torch

from rldyno_rig.backends import contract
from rldyno_rig.backends.torch_captured import CapturedLearner
from rldyno_rig.backends.torch_compiled import CompiledLearner, PackagedLearner
from rldyno_rig.backends.torch_eager import Learner
from rldyno_rig.spec import STORED, Params, Spec

MODES = ("eager", "compile", "aot", "cudagraph")
LEARNERS = dict(zip(MODES, (Learner, CompiledLearner, PackagedLearner, CapturedLearner)))
INDEX_DTYPE = "int64"

# Intra-op threads follow OMP_NUM_THREADS, which torch reads itself.
torch.set_num_interop_threads(1)
# Shapes never change: let cuDNN time its algorithms once, while warming up.
torch.backends.cudnn.benchmark = True


def facts() -> Dict[str, Any]:
    versions = {"torch": torch.__version__}
    on_gpu = torch.cuda.is_initialized()
    if on_gpu:
        versions.update(cuda=torch.version.cuda, cudnn=str(torch.backends.cudnn.version()))
    return {
        "versions": versions,
        "device": torch.cuda.get_device_name() if on_gpu else "cpu",
        "threads": torch.get_num_threads(),
        "interop_threads": torch.get_num_interop_threads(),
        "tf32": torch.backends.cuda.matmul.allow_tf32 or torch.backends.cudnn.allow_tf32,
        "cudnn_benchmark": torch.backends.cudnn.benchmark,
        "cudnn_deterministic": torch.backends.cudnn.deterministic,
        "mkldnn": torch.backends.mkldnn.is_available(),
    }


def make(spec: Spec, params: Params, mode: str, device: str, dtype: str) -> contract.Learner:
    assert device == {"cudagraph": "cuda", "aot": "cpu"}.get(mode, device)
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = dtype == "tf32"
    return LEARNERS[mode](spec, params, device, STORED[dtype])


def device_memory() -> Optional[Dict[str, int]]:
    """Bytes on the GPU: of tensors now and at the peak, and what the caching allocator holds for them."""
    if not torch.cuda.is_initialized():
        return None
    return {
        "used_bytes": torch.cuda.memory_allocated(),
        "used_peak_bytes": torch.cuda.max_memory_allocated(),
        "reserved_bytes": torch.cuda.memory_reserved(),
    }
