// A worker that pushes all parameters to a server in another process and pulls them, through ps-lite.
//
//     ps_lite PARAMETERS WARM_UP COUNT
//
// The server adds what is pushed to what it has. The parameters are one value of one key, so that nothing but they are sent, and
// the worker gives its memory without a copy. It prints how many seconds a push and a pull take together.

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <vector>

#include "ps/ps.h"

using Clock = std::chrono::steady_clock;

namespace {

constexpr ps::Key kKey = 0;

void Serve(int parameters) {
  auto* server = new ps::KVServer<float>(0);
  auto* held = new ps::SArray<float>(static_cast<size_t>(parameters), 0.0f);
  server->set_request_handle([held](const ps::KVMeta& request, const ps::KVPairs<float>& pushed, ps::KVServer<float>* here) {
    ps::KVPairs<float> answer;
    if (request.push) {
      CHECK_EQ(pushed.vals.size(), held->size());
      float* to = held->data();
      const float* from = pushed.vals.data();
      for (size_t at = 0; at < held->size(); ++at) to[at] += from[at];
    } else {
      answer.keys = pushed.keys;
      answer.vals = *held;
      answer.lens = ps::SArray<int>(1, static_cast<int>(held->size()));
    }
    here->Response(request, answer);
  });
  ps::RegisterExitCallback([server, held]() {
    delete server;
    delete held;
  });
}

void Work(int parameters, int warm_up, int count) {
  ps::KVWorker<float> worker(0, 0);
  ps::SArray<ps::Key> keys(1, kKey);
  ps::SArray<int> lengths(1, parameters);
  ps::SArray<float> changes(static_cast<size_t>(parameters), 1.0f);
  ps::SArray<float> values(static_cast<size_t>(parameters), 0.0f);
  Clock::time_point began;
  for (int clock = 0; clock < warm_up + count; ++clock) {
    if (clock == warm_up) began = Clock::now();
    worker.Wait(worker.ZPush(keys, changes, lengths));
    ps::SArray<int> came(1, 0);
    worker.Wait(worker.ZPull(keys, &values, &came));
    CHECK_EQ(values[values.size() - 1], static_cast<float>(clock + 1));
  }
  const std::chrono::duration<double> took = Clock::now() - began;
  std::printf("%.9f\n", took.count() / count);
}

}  // namespace

int main(int words, char** word) {
  if (words != 4) {
    std::fprintf(stderr, "usage: ps_lite PARAMETERS WARM_UP COUNT\n");
    return 2;
  }
  const int parameters = std::atoi(word[1]);
  ps::Start(0);
  if (ps::IsServer()) Serve(parameters);
  if (ps::IsWorker()) Work(parameters, std::atoi(word[2]), std::atoi(word[3]));
  ps::Finalize(0, true);
  return 0;
}
