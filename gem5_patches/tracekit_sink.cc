#include "tracekit_sink.hh"

#include <fcntl.h>
#include <unistd.h>
#include <zlib.h>

#include <cerrno>
#include <csignal>
#include <cstring>
#include <vector>

#ifdef TRACEKIT_HAVE_ZSTD
#include <zstd.h>
#endif

#include "base/logging.hh"

namespace gem5 {
namespace tracekit_plugin {
namespace {

bool ends_with(const std::string& s, const std::string& end) {
  return s.size() >= end.size() && s.compare(s.size() - end.size(), end.size(), end) == 0;
}

class Plain : public Sink {
 public:
  explicit Plain(const std::string& path) : path_(path) {
    std::signal(SIGPIPE, SIG_IGN);  // a reader that goes away shall be an error with a message
    fd_ = ::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0666);
    fatal_if(fd_ < 0, "tracekit: cannot open %s: %s", path_, std::strerror(errno));
  }
  void write(const char* data, std::size_t n) override {
    while (n) {
      const ssize_t done = ::write(fd_, data, n);
      if (done < 0 && errno == EINTR) continue;
      fatal_if(done < 0, "tracekit: cannot write %s: %s", path_, std::strerror(errno));
      data += done;
      n -= static_cast<std::size_t>(done);
    }
  }
  void close() override {
    fatal_if(::close(fd_) != 0, "tracekit: cannot close %s: %s", path_, std::strerror(errno));
  }

 private:
  std::string path_;
  int fd_{-1};
};

class Gzip : public Sink {
 public:
  explicit Gzip(const std::string& path) : path_(path), file_(gzopen(path.c_str(), "wb1")) {
    fatal_if(!file_, "tracekit: cannot open %s: %s", path_, std::strerror(errno));
  }
  void write(const char* data, std::size_t n) override {
    fatal_if(gzwrite(file_, data, static_cast<unsigned>(n)) != static_cast<int>(n),
             "tracekit: cannot write %s", path_);
  }
  void close() override { fatal_if(gzclose(file_) != Z_OK, "tracekit: cannot close %s", path_); }

 private:
  std::string path_;
  gzFile file_;
};

#ifdef TRACEKIT_HAVE_ZSTD
class Zstd : public Sink {
 public:
  explicit Zstd(const std::string& path)
      : path_(path), plain_(path), stream_(ZSTD_createCCtx()), out_(ZSTD_CStreamOutSize()) {
    fatal_if(!stream_, "tracekit: no memory for zstd");
    ZSTD_CCtx_setParameter(stream_, ZSTD_c_compressionLevel, 1);
    ZSTD_CCtx_setParameter(stream_, ZSTD_c_checksumFlag, 1);
    // A library without threads refuses this, and compresses in gem5's own thread.
    ZSTD_CCtx_setParameter(stream_, ZSTD_c_nbWorkers, 1);
  }
  ~Zstd() override { ZSTD_freeCCtx(stream_); }
  void write(const char* data, std::size_t n) override { compress({data, n, 0}, ZSTD_e_continue); }
  void close() override {
    compress({nullptr, 0, 0}, ZSTD_e_end);
    plain_.close();
  }

 private:
  void compress(ZSTD_inBuffer in, ZSTD_EndDirective how) {
    for (;;) {
      ZSTD_outBuffer out{out_.data(), out_.size(), 0};
      const std::size_t left = ZSTD_compressStream2(stream_, &out, &in, how);
      fatal_if(ZSTD_isError(left), "tracekit: %s: %s", path_, ZSTD_getErrorName(left));
      plain_.write(out_.data(), out.pos);
      if (how == ZSTD_e_end ? left == 0 : in.pos == in.size) return;
    }
  }
  std::string path_;
  Plain plain_;
  ZSTD_CCtx* stream_;
  std::vector<char> out_;
};
#endif

}  // namespace

std::unique_ptr<Sink> open_sink(const std::string& path) {
  if (ends_with(path, ".gz")) return std::make_unique<Gzip>(path);
  if (ends_with(path, ".zst")) {
#ifdef TRACEKIT_HAVE_ZSTD
    return std::make_unique<Zstd>(path);
#else
    fatal(
        "tracekit: this gem5 was built without libzstd's header, so %s cannot be written; name a "
        ".gz file, or a FIFO that zstd reads",
        path);
#endif
  }
  return std::make_unique<Plain>(path);
}

}  // namespace tracekit_plugin
}  // namespace gem5
