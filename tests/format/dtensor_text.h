// DTensors written by hand, as PyTorch 2.0 to 2.8 pickle them: opcodes as text, for tests.
#pragma once

#include <string>

#include "tests/format/pickle_text.h"

namespace cairn::testing {

inline const std::string kShardedRows = "K\2K\2\x86"s;  // the shape of the shard

// An object made without arguments. `attributes` are pairs of a key and a value.
inline std::string with_attributes(const std::string& type, const std::string& attributes) {
  return type + ")\x81}(" + attributes + "ub";
}

inline std::string placement(const std::string& name, const std::string& attributes = "") {
  return with_attributes(global("torch.distributed.tensor.placement_types", name), attributes);
}

inline std::string shard(const std::string& dim = "K\0"s) {
  return placement("Shard", unicode("dim") + dim);
}

inline std::string strided_shard(const std::string& dim, const std::string& split_factor) {
  return placement("_StridedShard", unicode("dim") + dim + unicode("split_factor") + split_factor);
}

// The parts of a pickled DTensor. The default is the second of two shards of a tensor with four
// rows of two elements.
struct DTensorText {
  std::string module = "torch.distributed.tensor";
  std::string dtype = global("torch", "float32");
  std::string shape = "K\4K\2\x86"s;
  std::string local = tensor(float_storage() + "K\0"s + kShardedRows + "K\2K\1\x86"s);
  std::string mesh_shape = "K\2\x85"s;
  std::string mesh_strides = "K\1\x85"s;
  std::string placements = shard() + "\x85";
  std::string coordinate = "]K\1a"s;
  std::string ranks = "K\0K\1\x86"s;
  std::string more = "";  // attributes of the spec
};

inline std::string dtensor(const DTensorText& text) {
  const std::string type = global(text.module, "DTensor");
  const std::string mesh =
      with_attributes(global("torch.distributed.device_mesh", "DeviceMesh"),
                      unicode("device_type") + unicode("cpu") + unicode("mesh") +
                          tensor(float_storage() + "K\0"s + text.mesh_shape + text.mesh_strides) +
                          unicode("mesh_dim_names") + "N" + unicode("_flatten_mesh_list") +
                          text.ranks + unicode("_coordinate_on_dim") + text.coordinate);
  const std::string spec =
      with_attributes(global("torch.distributed.tensor._dtensor_spec", "DTensorSpec"),
                      unicode("mesh") + mesh + unicode("placements") + text.placements + text.more);
  const std::string layout =
      global("torch.serialization", "_get_layout") + unicode("torch.strided") + "\x85R";
  const std::string device = global("torch", "device") + unicode("cpu") + "\x85R";
  return global("torch._tensor", "_rebuild_from_type_v2") + "(" +
         global("torch._utils", "_rebuild_wrapper_subclass") + type + "(" + type + text.dtype +
         text.shape + "K\2K\1\x86" + "K\0"s + layout + device + "\x88t" + "N}(" +
         unicode("_local_tensor") + text.local + unicode("_spec") + spec + "u\x86tR";
}

}  // namespace cairn::testing
