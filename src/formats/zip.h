/* formats/zip.h -- strict reading of zip archives.
 *
 * The central directory is authoritative; every local header is checked against it when the archive
 * is opened (sizes of 0 are accepted if bit 3 specifies that they follow the data; the descriptor
 * there must agree, too).  Refused, with file, record and offset: damage, truncation, records that
 * overlap or leave the file, two records of one name, names that are absolute, have `.` or `..` or
 * empty components, backslashes or control characters or malformed UTF-8, encryption, several
 * disks, methods other than stored and deflated, deflated records whose declared size deflate
 * cannot reach.  zip64 is read.  Folder entries are skipped.
 *
 * CRCs are checked when a record is read: always for deflated records and those below 64 KiB, for
 * others if the archive was opened with `check_all` (or through zip_check).
 *
 * The root is the first component of the first record's name ("model" of "model/data.pkl"), "" if
 * it has none.  It depends on where the file was saved, so look records up with zip_find, which
 * adds it.
 *
 * A mapped file may change while it is read: the directory and the local headers are parsed in
 * copies.
 *
 * Ownership: an archive is refcounted and holds its mapping.  Entries and names are borrowed from
 * it.  Threads: immutable after zip_open.  Cost: O(records log records) at opening if they are out
 * of order. */
#ifndef RUSH_FORMATS_ZIP_H
#define RUSH_FORMATS_ZIP_H

#include "base/table.h"
#include "formats/mapping.h"

typedef struct zip_entry {
  str name;              /* with the root; in the archive's memory */
  str path;              /* below the root; the whole name for records outside it */
  uint64_t header;       /* offset of the local header */
  uint64_t data;         /* offset of the (stored or deflated) bytes */
  size_t packed_bytes;   /* in the file */
  size_t n_bytes;        /* after decompression */
  uint32_t crc;          /* of the n_bytes */
  bool deflated;
  bool in_root;
} zip_entry;

typedef struct zip_archive {
  _Atomic uint32_t refs;
  context *ctx;       /* borrowed */
  mapping *map;       /* owned reference */
  zip_entry *entries; /* in the directory's order */
  uint32_t n_entries;
  str root;           /* without '/'; empty if the first record has no folder */
  bool check_all;
  _Atomic bool is_reported; /* for readers: what is to be said of it once was said */
  table by_name;      /* private: whole name -> zip_entry */
  arena mem;          /* private */
} zip_archive;

/* True if the bytes start as a zip file does. */
bool zip_looks_like(const void *data, size_t n_bytes);
/* Open an archive; new; retains m; released at the end of the session unless session_keep is
 * called. */
zip_archive *zip_open(session *s, mapping *m, bool check_all);
zip_archive *zip_retain(zip_archive *z);
void zip_release(zip_archive *z);

/* Find a record; borrowed, or NULL if there is none.  zip_find looks below the root. */
const zip_entry *zip_find(const zip_archive *z, const char *path);
const zip_entry *zip_find_name(const zip_archive *z, str name);
/* Like zip_find; leaves the session with RUSH_EFORMAT naming the missing record. */
const zip_entry *zip_need(session *s, const zip_archive *z, const char *path);

/* Return the record's bytes.  Deflated: inflated into a new block.  Stored: with `owner`, a pointer
 * into the mapping; without, a copy if the file may change, since data that is parsed is read more
 * than once (lengths first, then contents) and must not change after it was checked.  Valid until
 * the session ends, or while the caller retains *owner (borrowed). */
str zip_read(session *s, const zip_archive *z, const zip_entry *e, mapping **owner);
/* Like zip_read, as an input whose place is "FILE: NAME", for the readers of this folder. */
input zip_input(session *s, const zip_archive *z, const zip_entry *e);
/* Read everything once and compare every CRC. */
void zip_check(session *s, const zip_archive *z);
/* Leave the session with RUSH_EFORMAT: "FILE: NAME: message". */
_Noreturn void zip_fail(session *s, const zip_archive *z, const zip_entry *e, const char *fmt, ...)
    RUSH_PRINTF(4, 5);

#endif
