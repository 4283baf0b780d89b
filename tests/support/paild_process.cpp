#include "tests/support/paild_process.hpp"

#include <poll.h>
#include <stdlib.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <stdexcept>

namespace pail::test {
namespace {

// The file appears whole: paild writes it aside and renames it.
nlohmann::json wait_for_json(const std::string& path) {
  const auto give_up = std::chrono::steady_clock::now() + kProcessPatience;
  while (std::chrono::steady_clock::now() < give_up) {
    std::ifstream file(path);
    auto json = nlohmann::json::parse(file, nullptr, false);
    if (!json.is_discarded()) return json;
    ::poll(nullptr, 0, 1);
  }
  throw std::runtime_error("paild wrote no " + path);
}

}  // namespace

PaildProcess::PaildProcess(const std::vector<std::string>& more_arguments) {
  std::string pattern = (std::filesystem::temp_directory_path() / "pail-XXXXXX").string();
  if (::mkdtemp(pattern.data()) == nullptr) throw std::runtime_error("no temporary directory");
  directory_ = pattern;
  const std::string ready_file = directory_ + "/ready.json";
  std::vector<std::string> command{program_directory() + "/paild", "--listen", "127.0.0.1:0",
                                   "--ready-file", ready_file};
  command.insert(command.end(), more_arguments.begin(), more_arguments.end());
  // Its default address is one for all: tests beside this one want it, too.
  if (std::find(command.begin(), command.end(), "--resp") == command.end()) {
    command.insert(command.end(), {"--resp", "none"});
  }
  process_ = std::make_unique<Process>(command);
  const auto ready = wait_for_json(ready_file);
  address_ = ready.at("native").at(0).get<std::string>();
  io_ = ready.at("io").get<std::string>();
}

PaildProcess::~PaildProcess() {
  process_.reset();
  std::error_code ignored;
  std::filesystem::remove_all(directory_, ignored);
}

}  // namespace pail::test
