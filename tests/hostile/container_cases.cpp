// Containers whose headers lie: tars whose members reach outside the file, point elsewhere or
// overlap; compressed data that is cut off, damaged, endless, or nested in itself. Also honest
// containers around hostile content.
#include <array>

#include "cairn/value.h"

#include "format/compression/codec.h"
#include "format/tar/writer.h"
#include "testing/string_sink.h"
#include "tests/format/tar_text.h"
#include "tests/hostile/corpus.h"

namespace cairn::testing {
namespace {

using namespace std::string_literals;
using Cases = std::vector<HostileCase>;

void add_container(Cases& cases, const std::string& name, const std::string& bytes, Answer answer) {
  cases.push_back({"container_" + name, {{"", bytes}}, answer});
}

const std::string& good_pt() {
  static const std::string bytes = encoded(Dict{{"epoch", 3}, {"name", "unicorn"}});
  return bytes;
}

// Returns the codecs that need no other program. The sandbox would not let such a program run.
std::vector<const Codec*> own_codecs() {
  std::vector<const Codec*> found;
  for (const Codec* codec : codecs()) {
    if (codec->program == nullptr) found.push_back(codec);
  }
  return found;
}

std::string compressed(const Codec& codec, const std::string& text) {
  StringSink sink;
  const auto encoder = codec.encoder(sink);
  encoder->write(as_bytes(text));
  encoder->finish();
  return sink.text;
}

std::string in_tar(const std::string& content) {
  StringSink sink;
  tar::Writer tar(sink, "composer_states.pt", content.size());
  tar.write(as_bytes(content));
  tar.finish();
  return sink.text;
}

// --- Tars ---------------------------------------------------------------------------------------

void add_names(Cases& cases) {
  const std::string good = tar_member({.name = "composer_states.pt", .content = good_pt()});
  int number = 0;
  for (const std::string& name :
       {"/a"s, "//a"s, "/etc/passwd"s, "../a"s, "a/../../b"s, "a/.."s, ".."s, "./../a"s, "a//../b"s,
        "composer_states.pt"s, "./composer_states.pt"s}) {
    const std::string bad = tar_member({.name = name});
    const std::string suffix = std::to_string(number++);
    add_container(cases, "name_" + suffix, good + bad + kTarEnd, Answer::kUnsupported);
    add_container(cases, "pax_name_" + suffix, good + pax("path", name) + tar_member({}) + kTarEnd,
                  Answer::kUnsupported);
    add_container(
        cases, "gnu_name_" + suffix,
        good + tar_member({.type = 'L', .content = name + '\0'}) + tar_member({}) + kTarEnd,
        Answer::kUnsupported);
  }
}

void add_types(Cases& cases) {
  const std::string good = tar_member({.name = "composer_states.pt", .content = good_pt()});
  for (const char type : "12346SDMVNAZ9"s) {
    const std::string bad = tar_member({.name = "odd", .type = type, .content = ""});
    add_container(cases, "type_"s + type, bad + good + kTarEnd, Answer::kUnsupported);
    add_container(cases, "type_last_"s + type, good + bad + kTarEnd, Answer::kUnsupported);
  }
  add_container(cases, "sparse", pax("GNU.sparse.major", "1") + good + kTarEnd,
                Answer::kUnsupported);
  add_container(cases, "only_a_folder",
                tar_member({.name = "d/", .type = '5', .content = ""}) + kTarEnd,
                Answer::kUnsupported);
  add_container(cases, "two_strangers",
                tar_member({.name = "a"}) + tar_member({.name = "b"}) + kTarEnd,
                Answer::kUnsupported);
}

void add_sizes(Cases& cases) {
  int number = 0;
  for (const std::string& size :
       {"77777777777"s, "00000010000"s, "-0000000001"s, "0x000000001"s, "99999999999"s,
        std::string(12, '\xff'), "\x80\0\0\0\xff\xff\xff\xff\xff\xff\xff\xff"s,
        "\x80\0\0\0\x7f\xff\xff\xff\xff\xff\xff\xff"s, "\x80\0\0\0\0\0\0\x01\0\0\0\0"s,
        std::string(12, ' '), "1 1        "s, "           x"s}) {
    add_container(
        cases, "size_" + std::to_string(number++),
        tar_member({.name = "composer_states.pt", .content = good_pt(), .size_field = size}) +
            kTarEnd,
        Answer::kCorrupt);
  }
  for (const char* size : {"18446744073709551615", "18446744073709551104", "9223372036854775807",
                           "99999999999999999999", "-1", "", "1.5", "0x10", "4096 "}) {
    add_container(cases, "pax_size_" + std::to_string(number++),
                  pax("size", size) + tar_member({.name = "composer_states.pt"}) + kTarEnd,
                  Answer::kCorrupt);
  }
  for (const char* record : {"x", "1", "3 =", "3 =\n\n", "99999999999999999999 a=b\n",
                             "18446744073709551615 a=b\n", "8 a=bcd", "0 \n", "-7 a=b\n"}) {
    add_container(cases, "pax_record_" + std::to_string(number++),
                  tar_member({.type = 'x', .content = record}) + in_tar(good_pt()),
                  Answer::kCorrupt);
  }
}

void add_broken_tars(Cases& cases) {
  const std::string tar = in_tar(good_pt());
  for (std::size_t size = tar::kBlockBytes; size < tar.size(); size += 97) {
    add_container(cases, "tar_cut_" + std::to_string(size), tar.substr(0, size), Answer::kCorrupt);
  }
  for (std::size_t at = 0; at < 257; at += 5) {  // up to the magic number, which identifies a tar
    if (at == tar::kChecksum.offset + 7) continue;
    std::string damaged = tar;
    damaged[at] = static_cast<char>(damaged[at] ^ 0x40);
    add_container(cases, "tar_flip_" + std::to_string(at), damaged, Answer::kCorrupt);
  }
  add_container(cases, "tar_then_garbage", tar + std::string(512, 'x'), Answer::kCorrupt);
  add_container(cases, "tar_then_tar", tar + tar, Answer::kCorrupt);
  add_container(cases, "tar_odd_padding", tar + std::string(100, '\0'), Answer::kCorrupt);
  add_container(cases, "tar_huge_name",
                tar_member({.type = 'L', .content = std::string((1 << 20) + 1, 'n')}) + tar,
                Answer::kCorrupt);
  std::string many;
  for (int i = 0; i < 2000; ++i) {
    many += tar_member({.name = std::to_string(i), .content = ""});
  }
  add_container(cases, "tar_many_files", many + kTarEnd, Answer::kUnsupported);
}

// --- Compression --------------------------------------------------------------------------------

void add_broken_streams(Cases& cases) {
  for (const Codec* codec : own_codecs()) {
    const std::string name = codec->name;
    const std::string bytes = compressed(*codec, good_pt());
    for (std::size_t size = 20; size < bytes.size(); size += 41) {
      add_container(cases, name + "_cut_" + std::to_string(size), bytes.substr(0, size),
                    Answer::kCorrupt);
    }
    const bool has_checksum = codec != &kLzma;
    for (std::size_t at = 30; has_checksum && at + 8 < bytes.size(); at += 29) {
      std::string damaged = bytes;
      damaged[at] = static_cast<char>(~damaged[at]);
      add_container(cases, name + "_flip_" + std::to_string(at), damaged, Answer::kCorrupt);
    }
    add_container(cases, name + "_then_garbage", bytes + "garbage", Answer::kCorrupt);
    add_container(cases, name + "_then_zip", bytes + good_pt(), Answer::kCorrupt);
    add_container(cases, name + "_of_nothing", compressed(*codec, ""), Answer::kCorrupt);
    add_container(cases, name + "_of_zeros", compressed(*codec, std::string(1 << 20, '\0')),
                  Answer::kCorrupt);
    add_container(cases, name + "_of_a_cut_pt", compressed(*codec, good_pt().substr(0, 500)),
                  Answer::kCorrupt);
    add_container(cases, name + "_of_half_a_tar",
                  compressed(*codec, in_tar(good_pt()).substr(0, 900)), Answer::kCorrupt);
    std::string nested = good_pt();
    for (int i = 0; i < 5; ++i) {
      nested = compressed(*codec, nested);
    }
    add_container(cases, name + "_in_itself", nested, Answer::kUnsupported);
  }
}

void add_greedy_streams(Cases& cases) {
  for (int exponent = 18; exponent < 32; ++exponent) {  // windows of 256 MiB to 2 TiB
    const std::string window(1, static_cast<char>(exponent << 3));
    add_container(cases, "zstd_window_" + std::to_string(exponent),
                  "\x28\xb5\x2f\xfd\x00"s + window + "\x01\0\0"s, Answer::kUnsupported);
  }
  for (const char dictionary : "\x10\x20\x40\x80"s) {  // 256 MiB to 2 GiB
    add_container(cases,
                  "lzma_dictionary_" + std::to_string(static_cast<unsigned char>(dictionary)),
                  "\x5d\0\0\0"s + dictionary + std::string(8, '\xff') + std::string(30, '\0'),
                  Answer::kUnsupported);
  }
  // Four bytes for each 128 KiB: a file of 2 kB becomes 64 MiB.
  std::string bomb = "\x28\xb5\x2f\xfd\x00\x58"s;
  for (int i = 0; i < 512; ++i) {
    bomb += "\x02\0\x10"s + 'a';
  }
  add_container(cases, "zstd_bomb", bomb + "\x01\0\0"s, Answer::kCorrupt);
  std::string nested_tar = good_pt();
  for (int i = 0; i < 5; ++i) {
    nested_tar = in_tar(nested_tar);
  }
  add_container(cases, "tar_in_itself", nested_tar, Answer::kUnsupported);
}

void add_honest_ones(Cases& cases) {
  for (const Codec* codec : own_codecs()) {
    add_container(cases, codec->name + "_honest"s, compressed(*codec, good_pt()), Answer::kRead);
    add_container(cases, codec->name + "_of_tar_honest"s, compressed(*codec, in_tar(good_pt())),
                  Answer::kRead);
  }
}

}  // namespace

std::vector<HostileCase> hostile_containers() {
  Cases cases;
  add_names(cases);
  add_types(cases);
  add_sizes(cases);
  add_broken_tars(cases);
  add_broken_streams(cases);
  add_greedy_streams(cases);
  add_honest_ones(cases);
  return cases;
}

}  // namespace cairn::testing
