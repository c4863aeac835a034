/* archive/legacy.h -- reading archives of PyTorch 1.0 to 1.3, which have a model.json. */
#ifndef RUSH_ARCHIVE_LEGACY_H
#define RUSH_ARCHIVE_LEGACY_H

#include "archive/unpickle.h"
#include "ir/program.h"

/* Load the main module, deferred to the session.  `p` has its importer, which looks for classes in
 * libs/; `u` is new, without a folder. */
rush_value legacy_load(session *s, zip_archive *z, program *p, unpickler *u);

#endif
