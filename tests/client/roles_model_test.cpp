// The roles of client/src/connection.hpp, searched exhaustively: all interleavings of a few callers
// with a few calls each, a server that answers when it likes, a socket that holds few requests or
// many, and a caller whose deadline may pass at any moment. Nobody may be forgotten: from every
// state that is not the end something moves on, and none of it is left to deadlines.
//
// The model repeats work_until_done(), write_turn(), read_turn() and offer_vacant_roles() step by
// step; a step is what happens under one hold of the mutex, or one system call. Change them
// together. To show that the search can fail, each wake-up is left out once, and then a forgotten
// caller must be found. Wider settings, up to four callers with two calls each, were searched once:
// millions of states, none stuck.
#include <doctest/doctest.h>

#include <algorithm>
#include <cstddef>
#include <string>
#include <unordered_set>
#include <vector>

namespace {

enum class Omit { nothing, offer_to_sleeper, ring_on_leaving, ring_on_full };

struct Setting {
  int callers;
  int calls;          // each caller makes so many, one after the other
  std::size_t room;   // requests that the socket holds until the server reads
  bool has_deadline;  // caller 0 may give up at any moment
  Omit omit;
};

enum Place : char { kIdle, kSending, kSent, kReading, kAsleep, kGone };

struct Caller {
  char place = kIdle;
  char call = 0;
  char done = 0;
  char woken = 0;
  char flag = 0;  // kSent: the socket was full; kReading: watches for room
};

using Queue = std::string;  // of requests: caller and call in one character
constexpr char kAbandoned = '-';

struct State {
  std::vector<Caller> callers;
  Queue outgoing, sending, inbox, replies, in_flight;
  Queue sleepers;  // callers
  char writer_present = 0;
  char reader_present = 0;
  char full = 0;
  char bell = 0;

  [[nodiscard]] std::string key() const {
    std::string text;
    for (const Caller& c : callers) text.append({c.place, c.call, c.done, c.woken, c.flag});
    for (const Queue* queue : {&outgoing, &sending, &inbox, &replies, &in_flight, &sleepers}) {
      text += *queue;
      text += '|';
    }
    return text.append({writer_present, reader_present, full, bell});
  }
};

class Search {
 public:
  explicit Search(const Setting& setting) : setting_(setting) {}

  // Whether every reachable state moves on to the end.
  bool nobody_is_forgotten() {
    State start;
    start.callers.resize(static_cast<std::size_t>(setting_.callers));
    reach(std::move(start));
    while (!todo_.empty()) {
      State state = std::move(todo_.back());
      todo_.pop_back();
      moved_ = false;
      step(state);
      const bool at_end = std::all_of(state.callers.begin(), state.callers.end(),
                                      [](const Caller& c) { return c.place == kGone; });
      if (!moved_ && !at_end) return false;
    }
    return true;
  }

  [[nodiscard]] std::size_t states() const { return seen_.size(); }

 private:
  static char request_of(std::size_t caller, const Caller& c) {
    return static_cast<char>('A' + static_cast<char>(caller * 4) + c.call);
  }
  static std::size_t caller_of(char request) { return static_cast<std::size_t>(request - 'A') / 4; }
  static bool has_unsent(const State& s) { return !s.outgoing.empty() || !s.sending.empty(); }

  void reach(State state) {
    if (seen_.insert(state.key()).second) todo_.push_back(std::move(state));
  }

  void step(const State& s) {
    if (!s.inbox.empty()) {  // the server answers one
      State next = s;
      next.replies += next.inbox.front();
      next.inbox.erase(0, 1);
      moved_ = true;
      reach(std::move(next));
    }
    for (std::size_t i = 0; i < s.callers.size(); ++i) step(s, i);
  }

  void step(const State& s, std::size_t i) {
    State next = s;
    Caller& me = next.callers[i];
    const bool may_expire = setting_.has_deadline && i == 0;
    switch (static_cast<Place>(me.place)) {
      case kIdle:
        next.outgoing += request_of(i, me);
        next.in_flight += request_of(i, me);
        return go_on(std::move(next), i, false);
      case kSending: {  // the system call
        const std::size_t count = std::min(
            setting_.room - std::min(setting_.room, next.inbox.size()), next.sending.size());
        next.inbox += next.sending.substr(0, count);
        next.sending.erase(0, count);
        me.place = kSent;
        me.flag = count == 0;
        moved_ = true;
        return reach(std::move(next));
      }
      case kSent:
        next.writer_present = 0;
        next.full = me.flag;
        if (next.full && next.reader_present && setting_.omit != Omit::ring_on_full) next.bell = 1;
        return go_on(std::move(next), i, may_expire);
      case kReading: {
        const bool finds_room = me.flag && next.inbox.size() < setting_.room;
        if (!next.replies.empty() || finds_room || next.bell) {
          next.bell = 0;
          next.reader_present = 0;
          if (finds_room) next.full = 0;
          hand_out(next);
          return go_on(std::move(next), i, may_expire);
        }
        next.reader_present = 0;
        return expire(std::move(next), i, may_expire);
      }
      case kAsleep:
        next.sleepers.erase(next.sleepers.find(static_cast<char>('0' + i)), 1);
        if (me.woken) {
          me.woken = 0;
          return go_on(std::move(next), i, may_expire);
        }
        return expire(std::move(next), i, may_expire);
      case kGone:
        return;
    }
  }

  // The loop of work_until_done(), until it lets go of the mutex.
  void go_on(State s, std::size_t i, bool may_expire) {
    moved_ = true;
    if (s.callers[i].done) return leave(std::move(s), i);
    expire(s, i, may_expire);
    Caller& me = s.callers[i];
    if (has_unsent(s) && !s.writer_present && !s.full) {
      s.writer_present = 1;
      if (s.sending.empty()) std::swap(s.sending, s.outgoing);
      me.place = kSending;
    } else if (!s.reader_present) {
      s.reader_present = 1;
      me.place = kReading;
      me.flag = s.full;
    } else {
      me.place = kAsleep;
      s.sleepers += static_cast<char>('0' + i);
    }
    reach(std::move(s));
  }

  // A deadline may pass, but nobody may depend on that: it does not count as moving on.
  void expire(State s, std::size_t i, bool may_expire) {
    if (!may_expire || s.callers[i].done) return;
    const auto at = s.in_flight.find(request_of(i, s.callers[i]));
    s.in_flight[at] = kAbandoned;
    leave(std::move(s), i);
  }

  void leave(State s, std::size_t i) {
    const bool to_read = !s.reader_present && !s.in_flight.empty();
    const bool to_write = !s.writer_present && has_unsent(s) && !s.full;
    if (to_read || to_write) {
      if (!s.sleepers.empty()) {
        if (setting_.omit != Omit::offer_to_sleeper) {
          s.callers[static_cast<std::size_t>(s.sleepers.front() - '0')].woken = 1;
        }
      } else if (s.reader_present && setting_.omit != Omit::ring_on_leaving) {
        s.bell = 1;
      }
    }
    Caller& me = s.callers[i];
    me = Caller{.call = static_cast<char>(me.call + 1)};
    if (me.call == setting_.calls) me.place = kGone;
    reach(std::move(s));
  }

  void hand_out(State& s) {
    for (const char reply : s.replies) {
      const char due = s.in_flight.front();
      s.in_flight.erase(0, 1);
      if (due == kAbandoned) continue;
      if (due != reply) FAIL("the model itself is wrong: an answer out of order");
      Caller& caller = s.callers[caller_of(due)];
      caller.done = 1;
      if (caller.place == kAsleep) caller.woken = 1;
    }
    s.replies.clear();
  }

  const Setting setting_;
  std::unordered_set<std::string> seen_;
  std::vector<State> todo_;
  bool moved_ = false;
};

constexpr std::size_t kPlenty = 100;

}  // namespace

TEST_CASE("in no interleaving is a caller forgotten") {
  const auto search = [](int callers, int calls, std::size_t room, bool has_deadline) {
    CAPTURE(room);
    CAPTURE(has_deadline);
    CAPTURE(callers);
    Search all({callers, calls, room, has_deadline, Omit::nothing});
    CHECK(all.nobody_is_forgotten());
    CHECK(all.states() > 100);
  };
  for (const std::size_t room : {std::size_t{1}, std::size_t{2}, kPlenty}) {
    for (const bool has_deadline : {false, true}) {
      search(2, 2, room, has_deadline);
      search(3, 1, room, has_deadline);
    }
  }
  search(3, 2, 1, false);
}

TEST_CASE("the search finds the caller that is forgotten when a wake-up is left out") {
  CHECK_FALSE(Search({3, 1, kPlenty, false, Omit::offer_to_sleeper}).nobody_is_forgotten());
  CHECK_FALSE(Search({2, 1, kPlenty, false, Omit::ring_on_leaving}).nobody_is_forgotten());
  CHECK_FALSE(Search({3, 1, 1, false, Omit::ring_on_full}).nobody_is_forgotten());
}
