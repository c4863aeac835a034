#include "value/custom.h"

#define MAX_CLASSES 256

typedef struct custom_registry {
  mutex lock;
  uint32_t n;
  const custom_class *classes[MAX_CLASSES];
} custom_registry;

static void registry_destroy(context *c, void *object) { mem_free(c, object, sizeof(custom_registry)); }

/* NULL without memory. */
static custom_registry *registry_of(context *c)
{
  custom_registry *r = context_slot_get(c, SLOT_CLASSES);

  if (r)
    return r;
  r = mem_alloc_zero(c, sizeof *r);
  if (!r)
    return NULL;
  pthread_mutex_init(&r->lock, NULL);
  return context_slot_publish_steal(c, SLOT_CLASSES, r, registry_destroy);
}

static const custom_class *find_locked(const custom_registry *r, str name)
{
  for (uint32_t i = 0; i < r->n; i++)
    if (str_is(name, r->classes[i]->name))
      return r->classes[i];
  return NULL;
}

const custom_class *custom_class_find(context *c, str name)
{
  custom_registry *r = registry_of(c);
  const custom_class *found = NULL;

  if (r) {
    mutex_lock(&r->lock);
    found = find_locked(r, name);
    mutex_unlock(&r->lock);
  }
  return found;
}

rush_status custom_class_register(context *c, const custom_class *cls, rush_error *err)
{
  custom_registry *r = registry_of(c);
  rush_status st = RUSH_OK;

  if (!r)
    return error_nomem(err);
  mutex_lock(&r->lock);
  if (find_locked(r, str_of(cls->name)))
    st = error_set(err, RUSH_EARGUMENT, "the custom class '%s' is registered already", cls->name);
  else if (r->n == MAX_CLASSES)
    st = error_set(err, RUSH_ELIMIT, "more than %d custom classes", MAX_CLASSES);
  else
    r->classes[r->n++] = cls;
  mutex_unlock(&r->lock);
  return st;
}
