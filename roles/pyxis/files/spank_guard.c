/* SPDX-License-Identifier: GPL-3.0-or-later
 * GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
 *
 * A SPANK plugin after Pyxis in plugstack.conf: a task that asks for a container and is still in the mount namespace of
 * its node does not start. With the argument `alone`, on a node whose Pyxis does not fit, it takes Pyxis' two options
 * that ask for one. What it uses of Slurm is the same from 22.05 to 26.05 (spank.h), so it needs no headers; Slurm
 * compares only RELEASE, 0x160500 for 22.05.
 */
#include <string.h>
#include <sys/stat.h>

struct spank_option {
	char *name, *arginfo, *usage;
	int has_arg, val;
	int (*callback)(int val, const char *argument, int remote);
};
#define JOB_ENV 10 /* S_JOB_ENV of enum spank_item */
extern int spank_remote(void *spank);
extern int spank_option_register(void *spank, struct spank_option *option);
extern int spank_get_item(void *spank, int item, ...);
extern void slurm_error(const char *format, ...);

/* The name is a part of how srun passes an option on: it has to be that of Pyxis. */
const char plugin_name[] = "pyxis", plugin_type[] = "spank";
const unsigned int plugin_version = RELEASE, spank_plugin_version = 1;

static int alone, asked;
static struct stat host;

static int on_option(int val, const char *argument, int remote)
{
	(void)val, (void)argument, (void)remote;
	asked = 1;
	return 0;
}

static struct spank_option options[] = {
	{ "container-image", "IMAGE", "not on this node", 1, 0, on_option },
	{ "container-name", "NAME", "not on this node", 1, 0, on_option },
};

int slurm_spank_init(void *spank, int count, char **words)
{
	if (spank_remote(spank) != 1)
		return 0;
	for (int i = 0; i < count; ++i) {
		if (strcmp(words[i], "alone") == 0)
			alone = 1;
		else if (strncmp(words[i], "runtime_path=", 13) == 0)
			mkdir(words[i] + 13, 0755); /* Without it Pyxis drains the node of a batch job. */
	}
	if (alone && (spank_option_register(spank, options) || spank_option_register(spank, options + 1)))
		return -1;
	return 0;
}

int slurm_spank_task_init_privileged(void *spank, int count, char **words)
{
	(void)spank, (void)count, (void)words;
	return stat("/proc/self/ns/mnt", &host);
}

int slurm_spank_task_init(void *spank, int count, char **words)
{
	static const char *variables[] = { "PYXIS_CONTAINER_IMAGE=", "PYXIS_CONTAINER_NAME=" };
	struct stat now;
	char **env = NULL;

	(void)count, (void)words;
	if (stat("/proc/self/ns/mnt", &now) == 0 && now.st_ino != host.st_ino)
		return 0;
	if (spank_get_item(spank, JOB_ENV, &env) || env == NULL)
		return -1;
	for (; *env && !asked; ++env)
		for (int i = 0; i < 2; ++i) {
			size_t length = strlen(variables[i]);

			/* An empty one asks for nothing. */
			asked |= strncmp(*env, variables[i], length) == 0 && (*env)[length] != '\0';
		}
	if (!asked)
		return 0;
	slurm_error("container: this task asks for a container and has none, so it is not started%s",
		    alone ? ": Pyxis on this node does not fit its Slurm -> tell your administrator (run site.yml)" :
			    " -> see the messages of pyxis above, and --container-image or PYXIS_CONTAINER_* of the job");
	return -1;
}
