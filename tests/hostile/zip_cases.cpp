// torch.save files whose zip lies: every field of every header with several wrong values, and names
// that lead elsewhere.
#include "testing/string_sink.h"
#include "tests/format/raw_zip.h"
#include "tests/hostile/corpus.h"

namespace cairn::testing {
namespace {

using namespace std::string_literals;
using Cases = std::vector<HostileCase>;

void add_zip(Cases& cases, const std::string& name, const std::string& bytes, Answer answer) {
  cases.push_back({name, {{"", bytes}}, answer});
}

const std::string kPickle = "\x80\2}X\1\0\0\0aK\1s."s;  // {"a": 1}

RawRecord data_pkl() { return {.name = "archive/data.pkl", .content = kPickle}; }
RawRecord version() { return {.name = "archive/version", .content = "3\n"}; }

void add_bad_names(Cases& cases) {
  const std::vector<std::string> names = {
      "archive/../x",
      "archive/..",
      "../x",
      "/etc/passwd",
      "archive\\x",
      "archive/a\0b"s,
      "",
      "archive//x",
      "C:\\x",
      "C:/x",
      "archive/./x",
      "archive/folder/",
      "other/x",
      "archive2/x",
      "data.pkl",
      "archive/DATA.PKL",
      "archive/Version",
      "ARCHIVE/data/0",

      "~/x",
      "archive/x/../y",
      "\\\\host\\x",
      "archive/.",
      "./archive/x",
  };
  int number = 0;
  for (const std::string& name : names) {
    add_zip(cases, "name_" + std::to_string(number++) + "_" + name.substr(0, name.find('\0')),
            RawZip({data_pkl(), version(), {.name = name, .content = "x"}}).bytes(),
            Answer::kCorrupt);
  }
}

// Each field of the end record of a valid file, with values that it cannot have.
void add_lying_end(Cases& cases) {
  const std::string sound = RawZip({data_pkl(), version()}).bytes();
  struct Field {
    const char* name;
    std::size_t from_end;
    std::size_t bytes;
  };
  for (const Field& field :
       {Field{"signature", 22, 4}, Field{"disk", 18, 2}, Field{"directory_disk", 16, 2},
        Field{"count_here", 14, 2}, Field{"count", 12, 2}, Field{"directory_size", 10, 4},
        Field{"directory_offset", 6, 4}}) {
    for (const char value : {'\1', '\7', '\x7f', '\xfe'}) {
      std::string bytes = sound;
      bytes.replace(bytes.size() - field.from_end, field.bytes, std::string(field.bytes, value));
      add_zip(cases,
              std::string("end_") + field.name + "_" +
                  std::to_string(static_cast<unsigned char>(value)),
              bytes, Answer::kCorrupt);
    }
  }
}

// Each field of the Zip64 records, which cairn always writes, with values that it cannot have.
void add_lying_zip64(Cases& cases) {
  const std::string sound = encoded(Dict{{"a", 1}});
  struct Field {
    const char* name;
    std::size_t from_end;
    std::size_t bytes;
  };
  for (const Field& field :
       {Field{"signature", 98, 4}, Field{"size", 94, 8}, Field{"disk", 82, 4},
        Field{"directory_disk", 78, 4}, Field{"count_here", 74, 8}, Field{"count", 66, 8},
        Field{"directory_size", 58, 8}, Field{"directory_offset", 50, 8},
        Field{"locator_signature", 42, 4}, Field{"locator_disk", 38, 4},
        Field{"locator_offset", 34, 8}, Field{"locator_disks", 26, 4}}) {
    for (const char value : {'\2', '\7', '\x7f', '\xff'}) {
      std::string bytes = sound;
      bytes.replace(bytes.size() - field.from_end, field.bytes, std::string(field.bytes, value));
      add_zip(cases,
              std::string("zip64_") + field.name + "_" +
                  std::to_string(static_cast<unsigned char>(value)),
              bytes, Answer::kCorrupt);
    }
  }
}

// Each byte of the first local header of a valid file, inverted.
void add_flipped_headers(Cases& cases) {
  const RawZip zip({data_pkl(), version()});
  const std::string sound = zip.bytes();
  const std::size_t local = 30;
  for (std::size_t i = 0; i < local; ++i) {
    // "version needed" and the date have no meaning.
    if (i >= 4 && (i < 6 || (i >= 10 && i < 14))) continue;
    std::string bytes = sound;
    bytes[i] = static_cast<char>(~bytes[i]);
    add_zip(cases, "local_header_byte_" + std::to_string(i), bytes, Answer::kCorrupt);
  }
}

void add_impossible_layouts(Cases& cases) {
  const RawZip zip({data_pkl(), version()});
  const std::string body = zip.local() + zip.central();
  const std::size_t size = zip.central().size();
  const std::size_t offset = zip.local().size();
  for (const std::size_t by : {1U, 7U, 46U, 4096U}) {
    const std::string tail = "_by_" + std::to_string(by);
    add_zip(cases, "directory_too_long" + tail, body + RawZip::end(2, size + by, offset),
            Answer::kCorrupt);
    add_zip(cases, "directory_later" + tail, body + RawZip::end(2, size, offset + by),
            Answer::kCorrupt);
    add_zip(cases, "directory_earlier" + tail, body + RawZip::end(2, size, offset - by),
            Answer::kCorrupt);
    add_zip(cases, "gap_before_the_end" + tail,
            body + std::string(by, 'g') + RawZip::end(2, size, offset), Answer::kCorrupt);
    add_zip(cases, "junk_before_the_start" + tail, std::string(by, 'j') + zip.bytes(),
            Answer::kCorrupt);
  }
  for (const std::uint32_t at : {1U, 4U, 30U, 100U, 0x7fffffffU, 0xfffffffeU}) {
    RawRecord record = data_pkl();
    record.central_offset = at;
    add_zip(cases, "header_at_" + std::to_string(at), RawZip({record, version()}).bytes(),
            Answer::kCorrupt);
  }
  for (const std::uint32_t claimed : {0U, 1U, 40U, 500U, 0x7fffffffU, 0xfffffffeU}) {
    RawRecord record = data_pkl();
    record.central_size = claimed;
    add_zip(cases, "central_size_" + std::to_string(claimed), RawZip({record, version()}).bytes(),
            Answer::kCorrupt);
    record = data_pkl();
    record.central_size = record.local_size = claimed;
    add_zip(cases, "both_sizes_" + std::to_string(claimed), RawZip({record, version()}).bytes(),
            Answer::kCorrupt);
  }
  for (const std::uint16_t method : {1, 8, 9, 12, 14, 93, 95, 99, 0xffff}) {
    RawRecord record = data_pkl();
    record.local_method = record.central_method = method;
    add_zip(cases, "method_" + std::to_string(method), RawZip({record, version()}).bytes(),
            method == 8 ? Answer::kCorrupt : Answer::kUnsupported);  // cairn reads deflate
  }
}

void add_deflated(Cases& cases) {
  const RawRecord sound = deflated(data_pkl().name, data_pkl().content);
  add_zip(cases, "deflated", RawZip({sound, version()}).bytes(), Answer::kRead);
  for (const std::uint32_t claimed : {0U, 1U, 0x7fffffffU, 0xfffffffeU}) {
    RawRecord record = sound;
    record.expanded_size = claimed;
    add_zip(cases, "deflated_claims_" + std::to_string(claimed),
            RawZip({record, version()}).bytes(), Answer::kCorrupt);
  }
  RawRecord cut = sound;
  cut.content.resize(cut.content.size() / 2);
  add_zip(cases, "deflated_cut", RawZip({cut, version()}).bytes(), Answer::kCorrupt);
  const RawRecord zeros = deflated(data_pkl().name, std::string(1 << 20, '\0'));
  add_zip(cases, "deflated_zeros", RawZip({zeros, version()}).bytes(), Answer::kCorrupt);
}

// A valid file, cut to every third length.
void add_truncations(Cases& cases) {
  const std::string sound = RawZip({data_pkl(), version()}).bytes();
  for (std::size_t size = 0; size < sound.size(); size += 3) {
    add_zip(cases, "first_" + std::to_string(size) + "_bytes", sound.substr(0, size),
            Answer::kCorrupt);
  }
}

}  // namespace

std::vector<HostileCase> hostile_zips() {
  Cases cases;
  add_bad_names(cases);
  add_lying_end(cases);
  add_lying_zip64(cases);
  add_flipped_headers(cases);
  add_impossible_layouts(cases);
  add_deflated(cases);
  add_truncations(cases);
  return cases;
}

}  // namespace cairn::testing
