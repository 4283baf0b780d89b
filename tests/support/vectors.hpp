// Loads the golden vectors (protocol/vectors/, format in PROTOCOL.md section 11) for the tests of
// either side. A file that breaks the format throws: a vector that is silently skipped would test
// nothing.
#pragma once

#include <cstddef>
#include <cstdint>
#include <fstream>
#include <map>
#include <sstream>
#include <stdexcept>
#include <string>
#include <vector>

#include "protocol/messages.hpp"

namespace pail::test {

struct Vector {
  std::string where;  // file:line, for messages
  std::string name;
  std::string message;
  std::vector<std::byte> bytes;
  std::map<std::string, std::string> fields;  // all others

  [[nodiscard]] bool has(const std::string& field) const { return fields.count(field) != 0; }
  [[nodiscard]] bool is_valid() const { return !has("error"); }
  [[nodiscard]] bool is_fatal() const { return text("error") == "fatal"; }
  [[nodiscard]] std::string text(const std::string& field) const {
    const auto found = fields.find(field);
    return found == fields.end() ? std::string() : found->second;
  }
  [[nodiscard]] std::uint64_t number(const std::string& field, std::uint64_t absent = 0) const {
    if (!has(field)) return absent;
    std::size_t used = 0;
    const std::uint64_t value = std::stoull(text(field), &used, 0);
    if (used != text(field).size()) throw std::runtime_error(where + ": " + field);
    return value;
  }
  template <class Unsigned>
  [[nodiscard]] Unsigned as(const std::string& field, std::uint64_t absent = 0) const {
    const auto value = static_cast<Unsigned>(number(field, absent));
    if (value != number(field, absent)) throw std::runtime_error(where + ": " + field);
    return value;
  }
};

// "00ff 61*3" is 00 ff 61 61 61: a star repeats the last byte of its word.
inline std::vector<std::byte> parse_hex(const std::string& text) {
  std::vector<std::byte> bytes;
  std::istringstream words(text);
  for (std::string word; words >> word;) {
    const std::size_t star = std::min(word.find('*'), word.size());
    if (star % 2 != 0) throw std::runtime_error("odd number of digits: " + word);
    for (std::size_t i = 0; i < star; i += 2) {
      std::size_t used = 0;
      bytes.push_back(static_cast<std::byte>(std::stoul(word.substr(i, 2), &used, 16)));
      if (used != 2) throw std::runtime_error("not hexadecimal: " + word);
    }
    if (star < word.size())
      bytes.insert(bytes.end(), std::stoul(word.substr(star + 1)) - 1, bytes.back());
  }
  return bytes;
}

inline std::vector<Vector> load_vectors(const std::string& file) {
  const std::string path = std::string(PAIL_VECTORS_DIR) + "/" + file;
  std::ifstream in(path);
  if (!in) throw std::runtime_error("cannot read " + path);
  std::vector<Vector> all;
  Vector current;
  const auto finish = [&] {
    if (current.where.empty()) return;
    if (current.name.empty() || current.message.empty()) throw std::runtime_error(current.where);
    all.push_back(std::move(current));
    current = {};
  };
  int number = 0;
  for (std::string line; std::getline(in, line);) {
    ++number;
    if (line.empty()) finish();
    if (line.empty() || line.front() == '#') continue;
    const std::string here = file + ":" + std::to_string(number);
    const std::size_t colon = line.find(':');
    if (colon == std::string::npos) throw std::runtime_error(here + ": no colon");
    if (current.where.empty()) current.where = here;
    const std::string field = line.substr(0, colon);
    const std::string value = line.size() > colon + 2 ? line.substr(colon + 2) : "";
    if (field == "bytes") {
      const auto more = parse_hex(value);
      current.bytes.insert(current.bytes.end(), more.begin(), more.end());
    } else if (field == "name") {
      current.name = value;
    } else if (field == "message") {
      current.message = value;
    } else if (!current.fields.emplace(field, value).second) {
      throw std::runtime_error(here + ": " + field + " twice");
    }
  }
  finish();
  return all;
}

// The message that a valid vector describes. It borrows from the vector's decoded key or text, kept
// here.
struct RequestVector {
  explicit RequestVector(const Vector& vector) : key(parse_hex(vector.text("key"))) {
    request.op = static_cast<protocol::Op>(vector.as<std::uint8_t>("op"));
    request.tag = vector.as<std::uint32_t>("tag");
    request.policy = vector.as<std::uint32_t>("policy");
    request.cost = vector.as<std::uint32_t>("cost");
    request.expires_us = vector.as<std::uint32_t>("expires_us");
    request.priority = vector.as<std::uint8_t>("priority");
    request.partial = vector.number("partial") != 0;
    request.wants_grant = vector.number("wants_grant") != 0;
    request.grant = vector.number("grant");
    request.has_inline_limit = vector.has("period_ns");
    request.inline_limit = {vector.number("period_ns"), vector.as<std::uint32_t>("count"),
                            vector.as<std::uint32_t>("burst")};
    request.key = key;
  }
  RequestVector(const RequestVector&) = delete;
  RequestVector& operator=(const RequestVector&) = delete;

  std::vector<std::byte> key;
  protocol::Request request;
};

struct ReplyVector {
  explicit ReplyVector(const Vector& vector) : body(parse_hex(vector.text("body"))) {
    reply.op = static_cast<protocol::Op>(vector.as<std::uint8_t>("op"));
    reply.status = static_cast<protocol::Status>(vector.as<std::uint8_t>("status"));
    reply.tag = vector.as<std::uint32_t>("tag");
    reply.granted = vector.as<std::uint32_t>("granted");
    reply.remaining = vector.as<std::uint32_t>("remaining");
    reply.limit = vector.as<std::uint32_t>("limit");
    reply.layer = vector.as<std::uint8_t>("layer", protocol::kNoLayer);
    reply.info = vector.as<std::uint8_t>("info");
    reply.policy_version = vector.as<std::uint16_t>("policy_version");
    reply.wait_ns = vector.number("wait_ns");
    reply.reset_ns = vector.number("reset_ns");
    reply.body = body;
  }
  ReplyVector(const ReplyVector&) = delete;
  ReplyVector& operator=(const ReplyVector&) = delete;

  std::vector<std::byte> body;
  protocol::Reply reply;
};

}  // namespace pail::test
