"""Networks of patches and tokens: transformers and ResMLP."""

from __future__ import annotations

import torch
from torch import nn
from torch.nn import functional as F


class Patches(nn.Module):
    """Square patches of images, each projected to ``width`` numbers."""

    def __init__(self, side: int, patch: int, width: int) -> None:
        super().__init__()
        if side % patch:
            raise ValueError(f"patches of {patch} do not divide images of {side}")
        self.count = (side // patch) ** 2
        self.project = nn.Conv2d(3, width, patch, patch)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """(batch, 3, side, side) to (batch, count, width)."""
        return self.project(x).flatten(2).transpose(1, 2)


def gelu_mlp(width: int, dropout: float = 0.0) -> nn.Sequential:
    """Two layers, four times as wide between them."""
    return nn.Sequential(
        nn.Linear(width, 4 * width), nn.GELU(), nn.Dropout(dropout), nn.Linear(4 * width, width)
    )


class Attention(nn.Module):
    """Self-attention with several heads (Vaswani et al., arXiv 1706.03762)."""

    def __init__(self, width: int, heads: int, causal: bool) -> None:
        super().__init__()
        if width % heads:
            raise ValueError(f"{heads} heads do not divide a width of {width}")
        self.heads, self.causal = heads, causal
        self.qkv = nn.Linear(width, 3 * width)
        self.out = nn.Linear(width, width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """(batch, tokens, width) to the same."""
        q, k, v = self.qkv(x).unflatten(-1, (3, self.heads, -1)).permute(2, 0, 3, 1, 4)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=self.causal)
        return self.out(y.transpose(1, 2).flatten(2))


class TransformerBlock(nn.Module):
    """Attention and `gelu_mlp`, normalised in front (pre-LN), dropout behind, each added."""

    def __init__(self, width: int, heads: int, dropout: float = 0.0, causal: bool = False) -> None:
        super().__init__()
        self.norm1 = nn.LayerNorm(width)
        self.attention = Attention(width, heads, causal)
        self.norm2 = nn.LayerNorm(width)
        self.mlp = gelu_mlp(width, dropout)
        self.dropout = nn.Dropout(dropout)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """(batch, tokens, width) to the same."""
        x = x + self.dropout(self.attention(self.norm1(x)))
        return x + self.dropout(self.mlp(self.norm2(x)))


class ViT(nn.Module):
    """Vision transformer (Dosovitskiy et al., arXiv 2010.11929) with a class token."""

    def __init__(
        self,
        width: int,
        depth: int,
        heads: int,
        *,
        classes: int = 1000,
        side: int = 224,
        patch: int = 16,
        dropout: float = 0.1,
    ) -> None:
        super().__init__()
        self.patches = Patches(side, patch, width)
        self.token = nn.Parameter(torch.zeros(1, 1, width))
        self.positions = nn.Parameter(torch.randn(1, self.patches.count + 1, width) * 0.02)
        self.dropout = nn.Dropout(dropout)
        self.blocks = nn.Sequential(
            *(TransformerBlock(width, heads, dropout) for _ in range(depth))
        )
        self.norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, classes)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Images to logits."""
        x = torch.cat([self.token.expand(len(x), -1, -1), self.patches(x)], 1)
        x = self.blocks(self.dropout(x + self.positions))
        return self.head(self.norm(x)[:, 0])


class GPT(nn.Module):
    """Causal transformer (GPT-2, Radford et al. 2019) with the embedding as its last layer."""

    def __init__(
        self,
        width: int = 768,
        depth: int = 12,
        heads: int = 12,
        *,
        vocabulary: int = 50257,
        context: int = 1024,
        dropout: float = 0.1,
    ) -> None:
        super().__init__()
        self.tokens = nn.Embedding(vocabulary, width)
        self.positions = nn.Embedding(context, width)
        nn.init.normal_(self.tokens.weight, std=0.02)
        nn.init.normal_(self.positions.weight, std=0.02)
        self.dropout = nn.Dropout(dropout)
        self.blocks = nn.Sequential(
            *(TransformerBlock(width, heads, dropout, causal=True) for _ in range(depth))
        )
        self.norm = nn.LayerNorm(width)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        """Tokens (batch, n), int64, to logits (batch, n, vocabulary)."""
        place = torch.arange(tokens.shape[1], device=tokens.device)
        x = self.blocks(self.dropout(self.tokens(tokens) + self.positions(place)))
        return F.linear(self.norm(x), self.tokens.weight)


class GeluTransformer(nn.Module):
    """PyTorch's own transformer encoder (pre-LN, GELU) over patches of 4 x 4, for 32 x 32."""

    def __init__(self, classes: int = 10, width: int = 256, depth: int = 4) -> None:
        super().__init__()
        self.patches = Patches(32, 4, width)
        layer = nn.TransformerEncoderLayer(
            width, 8, 4 * width, dropout=0.1, activation="gelu", batch_first=True, norm_first=True
        )
        self.encoder = nn.TransformerEncoder(layer, depth, enable_nested_tensor=False)
        self.head = nn.Linear(width, classes)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Images to logits."""
        return self.head(self.encoder(self.patches(x)).mean(1))


class Affine(nn.Module):
    """Scale and shift of each channel: ResMLP has it in place of a normalisation."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.ones(width))
        self.shift = nn.Parameter(torch.zeros(width))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """(..., width) to the same."""
        return torch.addcmul(self.shift, x, self.scale)


class LayerScale(nn.Module):
    """Scale of each channel (Touvron et al., arXiv 2103.17239)."""

    def __init__(self, width: int, value: float) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.full((width,), value))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """(..., width) to the same."""
        return x * self.scale


class ResMLPBlock(nn.Module):
    """A linear layer across patches, then `gelu_mlp` across channels, each scaled and added."""

    def __init__(self, patches: int, width: int, scale: float) -> None:
        super().__init__()
        self.affine1, self.affine2 = Affine(width), Affine(width)
        self.across = nn.Linear(patches, patches)
        self.mlp = gelu_mlp(width)
        self.scale1, self.scale2 = LayerScale(width, scale), LayerScale(width, scale)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """(batch, patches, width) to the same."""
        y = self.across(self.affine1(x).transpose(1, 2)).transpose(1, 2)
        x = x + self.scale1(y)
        return x + self.scale2(self.mlp(self.affine2(x)))


class ResMLP(nn.Module):
    """ResMLP (Touvron et al., arXiv 2105.03404)."""

    def __init__(
        self,
        width: int = 384,
        depth: int = 12,
        *,
        classes: int = 1000,
        side: int = 224,
        patch: int = 16,
    ) -> None:
        super().__init__()
        scale = 0.1 if depth <= 18 else 1e-5
        self.patches = Patches(side, patch, width)
        self.blocks = nn.Sequential(
            *(ResMLPBlock(self.patches.count, width, scale) for _ in range(depth))
        )
        self.affine = Affine(width)
        self.head = nn.Linear(width, classes)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Images to logits."""
        return self.head(self.affine(self.blocks(self.patches(x))).mean(1))
