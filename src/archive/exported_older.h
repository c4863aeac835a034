/* archive/exported_older.h -- where the records of an exported program are, in the present layout
 * of archives and in those before it. */
#ifndef RUSH_ARCHIVE_EXPORTED_OLDER_H
#define RUSH_ARCHIVE_EXPORTED_OLDER_H

#include "formats/zip.h"
#include "value/type.h"

/* True for the layout of PyTorch before 2.7, which has one program without a name. */
bool exported_is_older(const zip_archive *z);
/* Refuse such an archive if its schema is not the present one. */
void exported_check_older(session *s, const zip_archive *z);
/* Return the path of the program's JSON, and of its sample inputs; borrowed or the session's. */
const char *exported_model_record(session *s, const zip_archive *z, str program);
const char *exported_samples_record(session *s, const zip_archive *z, str program);
/* Find the record that has the state, or the constants, as one pickled dict; NULL: each tensor has
 * a place in a record. */
const zip_entry *exported_pickled_state(session *s, const zip_archive *z, str program,
                                        bool is_constants);
/* Put the tensors of such a record into `state`: name -> rush_tensor, the session's. */
void exported_read_pickled(session *s, zip_archive *z, const zip_entry *e, type_store *types,
                           table *state);

#endif
