#include "cuda/region/failure.hpp"

namespace interlace::cuda {

namespace {

std::string seconds_text(double s) {
  std::string text = std::to_string(s);
  text.erase(text.find_last_not_of('0') + 1);
  if (!text.empty() && text.back() == '.') text.pop_back();
  return text;
}

std::string chunk_of(const wait_failure& f, const failure_words& words) {
  return "chunk " + std::to_string(f.chunk) + " of " + words.region;
}

std::string counter_of(const wait_failure& f) {
  return ", whose counter is " + std::to_string(f.seen) + " and not " + std::to_string(f.target);
}

}  // namespace

std::string describe_wait(const wait_failure& f, const failure_words& words) {
  return words.device(f.device) + " waits for " + chunk_of(f, words) + counter_of(f);
}

std::string describe_failure(const wait_failure& f, const failure_words& words) {
  const std::string device = words.device(f.device);
  const std::string each = words.turns == 1 ? ""
                                            : "(" + seconds_text(words.deadline_s / words.turns) +
                                                  " s for each of " + std::to_string(words.turns) +
                                                  " processes that take turns on a GPU) ";
  const std::string waited = device + " waited " + seconds_text(words.deadline_s) + " s " + each;
  const std::string chunk = chunk_of(f, words);
  const std::string count = counter_of(f);
  const std::string element = "element " + std::to_string(f.element) + " of " + words.region;
  const std::string by = device + ": block " + std::to_string(f.block) + " ";
  switch (f.what) {
    case failed_wait::none:
      return device + " reports nothing";
    case failed_wait::host:
      return device + " waited for the host at the start of a run until the deadline passed";
    case failed_wait::chunk:
      return waited + "for " + chunk + count +
             ": the kernel that writes it hangs or is slower than the deadline";
    case failed_wait::announcement:
      return device + ": a kernel announced " + (f.seen < f.target ? "too little" : "too much") +
             " of " + chunk + count + ": its blocks publish other elements than they are mapped to";
    case failed_wait::elsewhere:
      return device + " stopped waiting, since another process reported a failure";
    case failed_wait::turn:
      return device + ": exchange " + std::to_string(f.seen) + " of " + words.region +
             " took the buffers of another epoch: a graph holds an odd number of the region's "
             "epochs, or ran out of turn";
    case failed_wait::outside:
      return by + "stored or published " + element + ", which is outside of the device's part";
    case failed_wait::twice:
      return by + "published " + element + " (" + chunk + "), which block " +
             std::to_string(f.other_block) + " had published in the same epoch";
    case failed_wait::unpublished:
      return by + "stored " + element + " (" + chunk + "), which no block published";
    case failed_wait::unstored:
      return by + "published " + element + " (" + chunk + "), which no block stored";
    case failed_wait::peer:
      break;
  }
  const std::string peer = words.device(f.peer);
  return waited + "at " + words.exchange + " for " + peer + count + ": " + peer +
         " hangs or is slower than the deadline";
}

}  // namespace interlace::cuda
