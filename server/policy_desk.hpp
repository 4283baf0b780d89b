// The words of `pail policy`, answered from the store of policies.
#pragma once

#include <string>
#include <tl/expected.hpp>
#include <vector>

#include "server/engine/engine.hpp"
#include "server/frontend/policy_desk.hpp"
#include "server/policy/store.hpp"

namespace pail::server {

class StoreDesk final : public frontend::PolicyDesk {
 public:
  // `engine`: what counts under the policies; null: nothing does.
  explicit StoreDesk(policy::Store& store, const engine::Engine* engine = nullptr)
      : store_(store), engine_(engine) {}

  [[nodiscard]] Answer ask(std::string_view words, std::uint32_t skip,
                           protocol::Buffer page) noexcept override;

  // The whole answer, or what is wrong and what would be right.
  [[nodiscard]] policy::Parsed<std::string> answer(const std::vector<std::string>& words);

 private:
  [[nodiscard]] policy::Parsed<policy::Definition> find(const std::string& name) const;
  [[nodiscard]] std::string list() const;
  [[nodiscard]] std::string stats() const;
  [[nodiscard]] std::string history() const;
  [[nodiscard]] policy::Parsed<std::string> explain(const std::string& of,
                                                    const std::string& key) const;

  policy::Store& store_;
  const engine::Engine* const engine_;
};

}  // namespace pail::server
