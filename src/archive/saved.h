/* archive/saved.h -- reading torch.save files of PyTorch before 1.6 (later ones are zip archives).
 * */
#ifndef RUSH_ARCHIVE_SAVED_H
#define RUSH_ARCHIVE_SAVED_H

#include "formats/mapping.h"
#include "value/value.h"

bool saved_looks_like(const void *data, size_t n_bytes);
/* Load the value, deferred to the session. */
rush_value saved_load(session *s, mapping *map, type_store *types);

#endif
