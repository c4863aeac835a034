/* formats/foreign.c -- recognises foreign files: a table of first bytes, then the few formats that
 * have none. Used only after our own formats were not recognised, so a wrong guess affects only a
 * message. */
#include "formats/foreign.h"

#include <stdbool.h>
#include <string.h>

typedef struct first_bytes {
  const char *bytes;
  size_t n, at;
  const char *what;
} first_bytes;

#define COMPRESSED "; unpack it first"
#define WEIGHTS                                                                        \
  "weights without a program: load them in Python into the model, and save that with " \
  "torch.export.save or torch.jit.save"

static const first_bytes kinds[] = {
  {"version https://git-lfs", 23, 0, "a Git LFS pointer, not the file itself: run `git lfs pull`"},
  {"GGUF", 4, 0, "a GGUF file of llama.cpp: " WEIGHTS},
  {"ggml", 4, 0, "a GGML file: " WEIGHTS},
  {"TFL3", 4, 4, "a TensorFlow Lite model; only programs of PyTorch are opened"},
  {"\x89HDF\r\n\x1a\n", 8, 0, "an HDF5 file, as Keras writes; only programs of PyTorch are opened"},
  {"ptd1", 4, 4, "an ExecuTorch program's data; save the program itself with torch.export.save"},
  {"ET12", 4, 4, "an ExecuTorch program; save it with torch.export.save before it is lowered"},
  {"\x1f\x8b", 2, 0, "a file compressed with gzip" COMPRESSED},
  {"BZh", 3, 0, "a file compressed with bzip2" COMPRESSED},
  {"\xfd"
   "7zXZ",
   5, 0, "a file compressed with xz" COMPRESSED},
  {"\x28\xb5\x2f\xfd", 4, 0, "a file compressed with zstd" COMPRESSED},
  {"7z\xbc\xaf\x27\x1c", 6, 0, "a 7z archive" COMPRESSED},
  {"Rar!", 4, 0, "a RAR archive" COMPRESSED},
  {"ustar", 5, 257, "a tar archive" COMPRESSED},
  {"\x7f"
   "ELF",
   4, 0, "a program or shared library for Linux"},
  {"MZ", 2, 0, "a program or library for Windows"},
  {"\x89PNG", 4, 0, "a PNG picture"},
  {"\xff\xd8\xff", 3, 0, "a JPEG picture"},
  {"%PDF", 4, 0, "a PDF document"},
  {"\x80\x02", 2, 0,
   "a Python pickle that torch.save did not write; nothing of such files is executed here"},
  {"\x80\x03", 2, 0,
   "a Python pickle that torch.save did not write; nothing of such files is executed here"},
  {"\x80\x04", 2, 0,
   "a Python pickle that torch.save did not write; nothing of such files is executed here"},
  {"\x80\x05", 2, 0,
   "a Python pickle that torch.save did not write; nothing of such files is executed here"},
};

static bool has_word(const char *p, size_t n, const char *word)
{
  const size_t k = strlen(word);
  size_t i = 0;

  if (n < k)
    return false;
  while (i < k && (p[i] >= 'A' && p[i] <= 'Z' ? p[i] + 32 : p[i]) == word[i])
    i++;
  return i == k;
}

static bool is_html(const char *p, size_t n)
{
  size_t at = 0;

  while (at < n && at < 1000 && (p[at] == ' ' || p[at] == '\n' || p[at] == '\r' || p[at] == '\t'))
    at++;
  return has_word(p + at, n - at, "<!doctype html") || has_word(p + at, n - at, "<html");
}

/* True for a ModelProto: field 1 (ir_version) is a small number, followed by field 2
 * (producer_name, a text) or 7 (graph). */
static bool is_onnx(const unsigned char *p, size_t n)
{
  if (n < 8 || p[0] != 0x08 || p[1] == 0 || p[1] > 40)
    return false;
  if (p[2] == 0x3a)
    return true;
  return p[2] == 0x12 && p[3] > 0 && p[3] < 64 && n > 4 + (size_t)p[3] && p[4] >= ' ' && p[4] < 127;
}

const char *foreign_kind(const void *data, size_t n_bytes)
{
  const unsigned char *p = data;

  if (n_bytes == 0)
    return "an empty file: it was not written, or not downloaded to its end";
  for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
    if (n_bytes >= kinds[i].at + kinds[i].n &&
        memcmp(p + kinds[i].at, kinds[i].bytes, kinds[i].n) == 0)
      return kinds[i].what;
  if (is_html(data, n_bytes))
    return "an HTML page: the server sent a page (a login, an error) instead of the file";
  if (is_onnx(p, n_bytes))
    return "an ONNX model; save the model it was exported from with torch.export.save or "
           "torch.jit.save";
  return NULL;
}
