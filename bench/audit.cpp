#include "bench/audit.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cerrno>
#include <cstring>
#include <fstream>

namespace pail::bench {
namespace {

__extension__ using Wide = __int128;

// Below every sum that can come up, and far enough from the edge to be added to.
template <class Value>
constexpr Value kNotYet = -1e300;
template <>
constexpr Wide kNotYet<Wide> = -(Wide{1} << 120);

// Which moment a is the worst beginning, for the grants so far: a segment tree.
template <class Value>
class WorstBeginning {
 public:
  // For moments 0 to count - 1, none of which counts before it is opened.
  explicit WorstBeginning(std::size_t count)
      : size_(std::bit_ceil(count)), most_(2 * size_, kNotYet<Value>), added_(2 * size_) {}

  void open(std::size_t moment, Value base) {
    std::size_t node = size_ + moment;
    most_[node] = base + added_[node];
    while (node > 1) {
      node /= 2;
      update(node);
    }
  }
  // Adds to the first `count` moments, opened or not.
  void add_to_first(std::size_t count, Value value) { add(1, 0, size_, count, value); }
  [[nodiscard]] Value most() const { return most_[1]; }
  [[nodiscard]] std::size_t where() const {
    std::size_t node = 1;
    while (node < size_) node = most_[2 * node] >= most_[2 * node + 1] ? 2 * node : 2 * node + 1;
    return node - size_;
  }

 private:
  void update(std::size_t node) {
    most_[node] = std::max(most_[2 * node], most_[2 * node + 1]) + added_[node];
  }
  void add(std::size_t node, std::size_t begin, std::size_t end, std::size_t count, Value value) {
    if (end <= count) {
      most_[node] += value;
      added_[node] += value;
      return;
    }
    const std::size_t middle = begin + (end - begin) / 2;
    add(2 * node, begin, middle, count, value);
    if (count > middle) add(2 * node + 1, middle, end, count, value);
    update(node);
  }

  std::size_t size_;
  std::vector<Value> most_;   // of a node's moments, less what was added above it
  std::vector<Value> added_;  // to all of a node's moments
};

// The grants of one key.
class KeyAudit {
 public:
  KeyAudit(const AuditBound& bound, std::span<const Grant> by_received)
      : bound_(bound), grants_(by_received), origin_ns_(~std::uint64_t{0}) {
    for (const Grant& grant : grants_) begins_.push_back(begin_of(grant));
    std::sort(begins_.begin(), begins_.end());
    origin_ns_ = begins_.front();
    rank_.reserve(grants_.size());
    for (const Grant& grant : grants_) {
      const auto after = std::upper_bound(begins_.begin(), begins_.end(), begin_of(grant));
      rank_.push_back(static_cast<std::size_t>(after - begins_.begin()));
    }
  }

  // Exactly, in integers: is there an interval with too much?
  [[nodiscard]] bool is_over() const {
    // All times the period, so that nothing is divided.
    const Wide period = bound_.period_ns;
    const Wide burst = Wide{bound_.burst} * period;
    return search<Wide>(Wide{bound_.count}, period).excess > burst;
  }

  // The interval with the largest ratio, by Dinkelbach's method: look for the largest granted -
  // ratio x bound at the ratio found so far, take that interval's ratio, until it grows no more.
  [[nodiscard]] AuditFinding worst() const {
    const double rate = static_cast<double>(bound_.count) / static_cast<double>(bound_.period_ns);
    AuditFinding finding = finding_at(search<double>(rate, 1.0));
    for (int round = 0; round < kMaxRounds; ++round) {
      const AuditFinding next = finding_at(search<double>(finding.ratio * rate, 1.0));
      if (next.ratio <= finding.ratio * (1 + 1e-12)) break;
      finding = next;
    }
    return finding;
  }

 private:
  static constexpr int kMaxRounds = 50;

  template <class Value>
  struct Found {
    Value excess{};  // granted - rate x length
    std::size_t begin = 0, end = 0;
  };

  [[nodiscard]] std::uint64_t begin_of(const Grant& grant) const {
    return grant.sent_ns - std::min(grant.sent_ns, bound_.slack_ns);
  }

  // The interval with the largest token_value x granted - rate x length.
  template <class Value>
  [[nodiscard]] Found<Value> search(Value rate, Value token_value) const {
    WorstBeginning<Value> tree(begins_.size());
    std::vector<bool> is_open(begins_.size());
    Found<Value> found;
    bool is_first = true;
    for (std::size_t i = 0; i < grants_.size(); ++i) {
      // Only a beginning of a grant that is over can begin an interval that holds one.
      const std::size_t moment = rank_[i] - 1;
      if (!is_open[moment]) {
        tree.open(moment, rate * static_cast<Value>(begins_[moment] - origin_ns_));
        is_open[moment] = true;
      }
      tree.add_to_first(rank_[i], token_value * static_cast<Value>(grants_[i].tokens));
      const std::uint64_t end_ns = std::max(grants_[i].received_ns, origin_ns_);
      const Value excess = tree.most() - rate * static_cast<Value>(end_ns - origin_ns_);
      if (is_first || excess > found.excess) found = {excess, tree.where(), i};
      is_first = false;
    }
    return found;
  }

  template <class Value>
  [[nodiscard]] AuditFinding finding_at(const Found<Value>& found) const {
    AuditFinding finding;
    finding.key = grants_[found.end].key;
    finding.begin_ns = begins_[found.begin];
    finding.end_ns = grants_[found.end].received_ns;
    for (std::size_t i = 0; i <= found.end; ++i) {
      if (begin_of(grants_[i]) >= finding.begin_ns) finding.granted += grants_[i].tokens;
    }
    const auto length = static_cast<double>(finding.end_ns - finding.begin_ns);
    finding.bound = bound_.burst + length * bound_.count / static_cast<double>(bound_.period_ns);
    finding.ratio = static_cast<double>(finding.granted) / finding.bound;
    return finding;
  }

  const AuditBound& bound_;
  std::span<const Grant> grants_;  // by received_ns
  std::uint64_t origin_ns_;
  std::vector<std::uint64_t> begins_;  // all values of a, sorted
  std::vector<std::size_t> rank_;      // of a grant: how many of them are at or before its own
};

constexpr std::array<char, 8> kMagic = {'P', 'A', 'I', 'L', 'A', 'U', 'D', '1'};

template <class Value>
void write(std::ofstream& file, const Value* values, std::size_t count) {
  file.write(reinterpret_cast<const char*>(values),
             static_cast<std::streamsize>(count * sizeof(Value)));
}

}  // namespace

AuditResult audit(const AuditBound& bound, std::span<Grant> grants) {
  std::sort(grants.begin(), grants.end(), [](const Grant& left, const Grant& right) {
    return left.key != right.key ? left.key < right.key : left.received_ns < right.received_ns;
  });
  AuditResult result;
  result.grants = grants.size();
  const auto is_worse = [](const AuditFinding& left, const AuditFinding& right) {
    return left.ratio > right.ratio;
  };
  for (std::size_t begin = 0; begin < grants.size();) {
    std::size_t end = begin;
    std::uint64_t tokens = 0;
    for (; end < grants.size() && grants[end].key == grants[begin].key; ++end) {
      tokens += grants[end].tokens;
    }
    ++result.keys;
    result.tokens += tokens;
    // No interval has a larger ratio than everything at once: most keys are done here.
    const double most = static_cast<double>(tokens) / bound.burst;
    if (tokens > bound.burst || most > result.worst.ratio) {
      const KeyAudit key(bound, grants.subspan(begin, end - begin));
      const AuditFinding finding = key.worst();
      if (finding.ratio > result.worst.ratio) result.worst = finding;
      if (key.is_over()) {
        ++result.keys_over;
        result.examples.push_back(finding);
        std::sort(result.examples.begin(), result.examples.end(), is_worse);
        if (result.examples.size() > AuditResult::kMaxExamples) result.examples.pop_back();
      }
    }
    begin = end;
  }
  return result;
}

tl::expected<void, std::string> write_audit_log(const std::string& path, const AuditBound& bound,
                                                std::span<const Grant> grants) {
  std::ofstream file(path, std::ios::binary);
  write(file, kMagic.data(), kMagic.size());
  write(file, &bound, 1);
  write(file, grants.data(), grants.size());
  file.close();
  if (!file) return tl::unexpected(fmt::format("cannot write {}: {}", path, std::strerror(errno)));
  return {};
}

tl::expected<AuditLog, std::string> read_audit_log(const std::string& path) {
  std::ifstream file(path, std::ios::binary | std::ios::ate);
  if (!file) return tl::unexpected(fmt::format("cannot read {}: {}", path, std::strerror(errno)));
  const auto size = static_cast<std::size_t>(file.tellg());
  file.seekg(0);
  constexpr std::size_t kHeader = kMagic.size() + sizeof(AuditBound);
  AuditLog log;
  std::array<char, 8> magic{};
  const bool has_size = size >= kHeader && (size - kHeader) % sizeof(Grant) == 0;
  file.read(magic.data(), magic.size());
  if (!has_size || magic != kMagic) {
    return tl::unexpected(fmt::format("{} is no audit log of pail-bench", path));
  }
  log.grants.resize((size - kHeader) / sizeof(Grant));
  file.read(reinterpret_cast<char*>(&log.bound), sizeof log.bound);
  file.read(reinterpret_cast<char*>(log.grants.data()),
            static_cast<std::streamsize>(log.grants.size() * sizeof(Grant)));
  if (!file || log.bound.period_ns == 0 || log.bound.burst == 0) {
    return tl::unexpected(fmt::format("{} is damaged", path));
  }
  return log;
}

}  // namespace pail::bench
