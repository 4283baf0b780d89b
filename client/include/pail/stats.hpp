// What a server counts, as it tells itself: names and numbers.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace pail {

struct Stat {
  enum class Kind : std::uint8_t {
    counter,  // only grows while the server runs
    gauge,    // goes up and down
    other,    // of a newer server
  };
  Kind kind = Kind::counter;
  std::string name;  // "replies_denied": stays for good, but a newer server may have more of them
  std::uint64_t value = 0;
};

// What a server answers about its policies, to those who may administer it.
struct PolicyAnswer {
  std::string text;           // lines, for people; of "show" and "export": TOML
  std::uint32_t version = 0;  // of the policies in force
};

struct ServerStats {
  std::vector<Stat> numbers;  // in the server's order
  std::uint32_t shards = 0;   // threads that serve
};

}  // namespace pail
