/* formats/zip_write.h -- zip archives as PyTorch writes them, with the same bytes each time.
 *
 * Records are put under a root folder; times are those of 1980; data starts at multiples of 64
 * bytes, with an `FB` extra field for padding, so that a reader can map it.  zip64 where sizes or
 * offsets need it.
 *
 *   zip_writer *z = zip_writer_new(s, &out, "model");
 *   zip_write(z, "data.pkl", bytes, n);
 *   zip_write_deflated(z, "code/__torch__.py", text, len);
 *   zip_finish(z);
 *
 * Ownership: session memory.  Threads: one at a time. */
#ifndef RUSH_FORMATS_ZIP_WRITE_H
#define RUSH_FORMATS_ZIP_WRITE_H

#include "formats/output.h"

typedef struct zip_writer zip_writer;

/* Begin an archive.  `root` is without '/'; "": records are at the top.  Offsets count from the
 * bytes written before. */
zip_writer *zip_writer_new(session *s, const output *out, const char *root);
/* Add a record.  A second one of the same name is the caller's mistake: RUSH_EARGUMENT. */
void zip_write(zip_writer *z, const char *path, const void *data, size_t n_bytes);
/* Like zip_write, deflated if that makes it smaller. */
void zip_write_deflated(zip_writer *z, const char *path, const void *data, size_t n_bytes);
/* Add PyTorch's record of the archive's identity: 40 digits, from the records' names and bytes so
 * far. */
void zip_write_identity(zip_writer *z);
/* Write the directory: nothing may be added afterwards. */
void zip_finish(zip_writer *z);

#endif
