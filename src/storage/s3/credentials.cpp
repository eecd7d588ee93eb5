#include "storage/s3/credentials.h"

#include "cairn/error.h"

#include "core/environment.h"
#include "io/threads/turns.h"
#include "storage/s3/credential_fetch.h"

namespace cairn::s3 {
namespace {

// So long before their end they are fetched anew.
constexpr std::chrono::minutes kEarly{5};
// So long nobody asks again behind a failure, as long as those that are kept hold: a source that
// hangs would make every request wait for its end. Nor behind others that end as soon: some sources
// give the same until shortly before.
constexpr std::chrono::seconds kPauseOfKeys{30};

constexpr const char* kNoKeys =
    "no keys for S3 were found: set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or AWS_PROFILE to "
    "one of the profiles in ~/.aws/credentials";

class FixedCredentials final : public CredentialSource {
 public:
  explicit FixedCredentials(Credentials credentials) : credentials_(std::move(credentials)) {}
  Credentials get() override {
    if (!credentials_.complete()) throw UsageError(kNoKeys);
    return credentials_;
  }

 private:
  Credentials credentials_;
};

class FetchedCredentials final : public CredentialSource {
 public:
  FetchedCredentials(std::function<Credentials()> fetch, std::shared_ptr<NetClock> clock,
                     std::string what)
      : fetch_(std::move(fetch)),
        clock_(clock ? std::move(clock) : real_net_clock()),
        what_(std::move(what)) {}

  Credentials get() override {
    const Turn turn(turns_);
    const NetTime now = clock_->now();
    const bool holds = kept_.complete() && (!kept_.expires || now < *kept_.expires);
    const bool holds_long = holds && (!kept_.expires || now < *kept_.expires - kEarly);
    const bool may_wait = holds_long || (holds && now < next_try_);
    if (may_wait && !is_refused_) return kept_;
    try {
      kept_ = fetch();
      is_refused_ = false;
      next_try_ = pause_behind(clock_->now());
    } catch (const StorageError&) {
      if (!holds || is_refused_) throw;
      next_try_ = clock_->now() + kPauseOfKeys;
    }
    return kept_;
  }

  void refused(const Credentials& used) override {
    const Turn turn(turns_);
    // Another thread may have fetched others meanwhile.
    if (used.access_key == kept_.access_key && used.session_token == kept_.session_token) {
      is_refused_ = true;
    }
  }

 private:
  // Until when those that were just fetched do, though they end soon.
  NetTime pause_behind(NetTime now) const {
    if (!kept_.expires || *kept_.expires <= now) return now;
    return now + std::min<NetTime::duration>(kPauseOfKeys, (*kept_.expires - now) / 2);
  }

  // What goes wrong with keys says nothing of the object that was asked for: a token file that is
  // away for a moment is no checkpoint that is not there. Only where there never were keys, a
  // configuration that cannot work is called so.
  Credentials fetch() {
    const bool had_some = kept_.complete();
    const auto refuse = [&](const Error& why) {
      throw StorageError(what_ + " cannot be had: " + why.what(), 0, had_some);
    };
    try {
      Credentials fetched = fetch_();
      if (!fetched.complete()) throw UsageError(kNoKeys);
      return fetched;
    } catch (const StorageError&) {
      throw;
    } catch (const CancelledError&) {
      throw;
    } catch (const UsageError& e) {
      if (!had_some) throw;
      refuse(e);
    } catch (const UnsupportedError& e) {  // no libcurl
      if (!had_some) throw;
      refuse(e);
    } catch (const Error& e) {
      refuse(e);
    }
    return {};
  }

  std::function<Credentials()> fetch_;
  std::shared_ptr<NetClock> clock_;
  const std::string what_;
  Turns turns_;  // of what follows; who fetches has it as long
  Credentials kept_ = {};
  NetTime next_try_ = {};
  bool is_refused_ = false;
};

std::string of_profile(const Profile& profile, const char* name) {
  const auto found = profile.find(name);
  return found == profile.end() ? "" : found->second;
}

FoundCredentials fixed(const Credentials& keys) {
  return {fixed_credentials(keys),
          keys.access_key + "\n" + keys.secret_key + "\n" + keys.session_token};
}

FoundCredentials fetched(const CredentialContext& context, std::string identity,
                         std::function<Credentials()> fetch) {
  return {fetched_credentials(std::move(fetch), context.retries.clock), std::move(identity)};
}

std::optional<WebIdentity> web_identity(const Profile& profile, bool is_profile_given) {
  WebIdentity found = {environment("AWS_ROLE_ARN"), environment("AWS_WEB_IDENTITY_TOKEN_FILE"),
                       environment("AWS_ROLE_SESSION_NAME")};
  const bool is_whole = !found.role.empty() && !found.token_file.empty();
  if (is_whole && !is_profile_given) return found;
  found = {of_profile(profile, "role_arn"), of_profile(profile, "web_identity_token_file"),
           of_profile(profile, "role_session_name")};
  if (!found.role.empty() && !found.token_file.empty()) return found;
  return std::nullopt;
}

// What AWS's tools could do with a profile, and cairn cannot: not a reason to take other keys. With
// them, keys of the profile itself only lead to the role: what they may do is another thing.
void check_profile(const Profile& profile) {
  for (const char* name :
       {"role_arn", "source_profile", "credential_source", "sso_session", "sso_start_url"}) {
    if (profile.contains(name)) {
      throw UsageError(std::string("the AWS profile has a ") + name +
                       ", which cairn does not follow; export the keys it leads to (aws configure "
                       "export-credentials), or name the aws command that does as its "
                       "credential_process");
    }
  }
}

}  // namespace

std::shared_ptr<CredentialSource> fixed_credentials(Credentials credentials) {
  return std::make_shared<FixedCredentials>(std::move(credentials));
}

std::shared_ptr<CredentialSource> fetched_credentials(std::function<Credentials()> fetch,
                                                      std::shared_ptr<NetClock> clock,
                                                      std::string what) {
  return std::make_shared<FetchedCredentials>(std::move(fetch), std::move(clock), std::move(what));
}

FoundCredentials find_credentials(const CredentialContext& context) {
  // A whole set from one place: an id of one account and a secret of another fit nowhere.
  if (context.given.complete()) return fixed(context.given);
  const Credentials set = {environment("AWS_ACCESS_KEY_ID"), environment("AWS_SECRET_ACCESS_KEY"),
                           environment("AWS_SESSION_TOKEN")};
  if (set.complete() && !context.is_profile_given) return fixed(set);
  const Profile& profile = context.profile;
  if (const auto identity = web_identity(profile, context.is_profile_given)) {
    return fetched(context, "web " + identity->role + "\n" + identity->token_file,
                   [context, identity] { return fetch_web_identity(context, *identity); });
  }
  check_profile(profile);
  const Credentials keys = {of_profile(profile, "aws_access_key_id"),
                            of_profile(profile, "aws_secret_access_key"),
                            of_profile(profile, "aws_session_token")};
  if (keys.complete()) return fixed(keys);
  if (const std::string command = of_profile(profile, "credential_process"); !command.empty()) {
    return fetched(context, "process " + command, [command] { return fetch_process(command); });
  }
  std::string container = environment("AWS_CONTAINER_CREDENTIALS_RELATIVE_URI");
  if (container.empty()) container = environment("AWS_CONTAINER_CREDENTIALS_FULL_URI");
  if (!container.empty()) {
    return fetched(context, "container " + container,
                   [context, container] { return fetch_container(context, container); });
  }
  if (environment("AWS_EC2_METADATA_DISABLED") == "true") return fixed({});
  return fetched(context, "instance", [context] { return fetch_instance(context); });
}

}  // namespace cairn::s3
