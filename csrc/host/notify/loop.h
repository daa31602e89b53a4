/* The thread of one cage (pthread_create(3)): it serves the cage's calls until the cage is gone. */
#ifndef PSB_LOOP_H
#define PSB_LOOP_H

/* `cage`: struct notified_cage, of which the thread is a user. */
void *serve_cage(void *cage);

#endif
