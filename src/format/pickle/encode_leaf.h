// The objects without items, as CPython writes them under protocol 2.
#pragma once

#include <complex>

#include "format/pickle/pickler.h"

namespace cairn::pickle {

void encode_complex(Pickler& out, const std::complex<double>& value);
void encode_bytes(Pickler& out, const Bytes& value);
void encode_timedelta(Pickler& out, const TimeDelta& value);
void encode_size(Pickler& out, const Size& value);
void encode_device(Pickler& out, const Device& value);

// As numpy 1 writes it; weights_only refuses numpy of any version. Returns the memo number.
std::uint32_t encode_array(Pickler& out, const NdArray& array);

}  // namespace cairn::pickle
