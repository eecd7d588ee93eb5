// GPT-2's network, with the names of PyTorch's tutorials, and the names that Transformers' GPT-2
// has for its tensors.
#pragma once

#include <torch/torch.h>

#include <cmath>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "cairn/dist/activation_checkpoint.h"
#include "cairn/models/huggingface.h"

namespace gpt2 {

// The fields of Transformers' GPT2Config. The defaults make a network of 0.1 million parameters
// for bytes of text.
struct Config {
  std::int64_t vocab_size = 256;
  std::int64_t n_positions = 64;
  std::int64_t n_embd = 64;
  std::int64_t n_layer = 2;
  std::int64_t n_head = 4;
  double dropout = 0.1;
  // Whether backward() computes the layers again, instead of keeping their activations.
  bool activation_checkpointing = false;

  std::string json() const {
    return "{\n  \"architectures\": [\"GPT2LMHeadModel\"],\n  \"model_type\": \"gpt2\",\n" +
           field("vocab_size", vocab_size) + field("n_positions", n_positions) +
           field("n_embd", n_embd) + field("n_layer", n_layer) +
           "  \"n_head\": " + std::to_string(n_head) + "\n}\n";
  }

 private:
  static std::string field(const std::string& name, std::int64_t value) {
    return "  \"" + name + "\": " + std::to_string(value) + ",\n";
  }
};

struct LayerImpl : torch::nn::Module {
  explicit LayerImpl(const Config& config) : heads(config.n_head), dropout(config.dropout) {
    const std::int64_t width = config.n_embd;
    const torch::nn::LayerNormOptions norm({width});
    norm1 = register_module("norm1", torch::nn::LayerNorm(norm));
    qkv = register_module("qkv", torch::nn::Linear(width, 3 * width));
    out = register_module("out", torch::nn::Linear(width, width));
    norm2 = register_module("norm2", torch::nn::LayerNorm(norm));
    up = register_module("up", torch::nn::Linear(width, 4 * width));
    down = register_module("down", torch::nn::Linear(4 * width, width));
  }

  at::Tensor forward(const at::Tensor& input) {
    const at::Tensor x = input + drop(out(attention(qkv(norm1(input)))));
    return x + drop(down(at::gelu(up(norm2(x)), "tanh")));
  }

  at::Tensor attention(const at::Tensor& all) {
    const std::int64_t batch = all.size(0);
    const std::int64_t tokens = all.size(1);
    const auto parts = all.view({batch, tokens, 3, heads, -1}).permute({2, 0, 3, 1, 4}).unbind(0);
    const double scale = 1 / std::sqrt(static_cast<double>(parts[0].size(-1)));
    const at::Tensor later = at::ones({tokens, tokens}, all.options().dtype(at::kBool)).triu(1);
    const at::Tensor scores =
        (parts[0].matmul(parts[1].transpose(-2, -1)) * scale).masked_fill(later, -INFINITY);
    const at::Tensor mixed = drop(scores.softmax(-1)).matmul(parts[2]);
    return mixed.transpose(1, 2).reshape({batch, tokens, -1});
  }

  at::Tensor drop(const at::Tensor& x) const { return at::dropout(x, dropout, is_training()); }

  std::int64_t heads;
  double dropout;
  torch::nn::LayerNorm norm1{nullptr}, norm2{nullptr};
  torch::nn::Linear qkv{nullptr}, out{nullptr}, up{nullptr}, down{nullptr};
};
TORCH_MODULE(Layer);

struct NetImpl : torch::nn::Module {
  explicit NetImpl(const Config& given) : config(given) {
    tokens = register_module("tokens", torch::nn::Embedding(config.vocab_size, config.n_embd));
    positions =
        register_module("positions", torch::nn::Embedding(config.n_positions, config.n_embd));
    const auto list = register_module("layers", torch::nn::ModuleList());
    for (std::int64_t i = 0; i < config.n_layer; ++i) {
      layers.emplace_back(config);
      list->push_back(layers.back());
    }
    norm =
        register_module("norm", torch::nn::LayerNorm(torch::nn::LayerNormOptions({config.n_embd})));
    const torch::NoGradGuard no_grad;
    for (at::Tensor& parameter : parameters()) {  // As GPT-2 begins.
      if (parameter.dim() == 2) parameter.normal_(0, 0.02);
    }
  }

  // [samples, tokens] -> scores [samples, tokens, vocabulary]. The last layer's weight is the
  // first one's.
  at::Tensor forward(const at::Tensor& ids) {
    const at::Tensor place = at::arange(ids.size(1), ids.options());
    at::Tensor x = at::dropout(tokens(ids) + positions(place), config.dropout, is_training());
    for (Layer& layer : layers) {
      x = config.activation_checkpointing ? cairn::checkpoint_activations(layer, x) : layer(x);
    }
    return norm(x).matmul(tokens->weight.t());
  }

  Config config;
  torch::nn::Embedding tokens{nullptr}, positions{nullptr};
  std::vector<Layer> layers;
  torch::nn::LayerNorm norm{nullptr};
};
TORCH_MODULE(Net);

// The names of Transformers' GPT2LMHeadModel. Its Conv1D has its weight transposed. Its older files
// hold a mask for each layer, as a tensor.
inline cairn::HuggingFaceOptions huggingface_options() {
  return {.names = {{"transformer.wte.weight", "tokens.weight"},
                    {"transformer.wpe.weight", "positions.weight"},
                    {"transformer.h.*.ln_1.*", "layers.*.norm1.*"},
                    {"transformer.h.*.attn.c_attn.weight", "layers.*.qkv.weight", true},
                    {"transformer.h.*.attn.c_attn.bias", "layers.*.qkv.bias"},
                    {"transformer.h.*.attn.c_proj.weight", "layers.*.out.weight", true},
                    {"transformer.h.*.attn.c_proj.bias", "layers.*.out.bias"},
                    {"transformer.h.*.ln_2.*", "layers.*.norm2.*"},
                    {"transformer.h.*.mlp.c_fc.weight", "layers.*.up.weight", true},
                    {"transformer.h.*.mlp.c_fc.bias", "layers.*.up.bias"},
                    {"transformer.h.*.mlp.c_proj.weight", "layers.*.down.weight", true},
                    {"transformer.h.*.mlp.c_proj.bias", "layers.*.down.bias"},
                    {"transformer.ln_f.*", "norm.*"}},
          .base_model_prefix = "transformer",
          .ignored = {"transformer.h.*.attn.bias", "transformer.h.*.attn.masked_bias",
                      "lm_head.weight"}};
}

}  // namespace gpt2
